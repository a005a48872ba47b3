//! API keys and tokens of known providers, found by their prefixes, and JSON Web Tokens.

use super::Scan;
use super::view::{View, entropy_tenths, is_base64url};
use crate::kinds::Kind;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The longest token that is found as a whole.
pub(super) const TOKEN_MOST: usize = 16 * 1024;
/// The longest header of a JSON Web Token.
const HEADER_MOST: usize = 4 * 1024;

/// What the rest of a token consists of.
#[derive(Clone, Copy, Debug)]
enum Set {
    Letters,
    Upper,
    Hex,
    /// Letters, digits, `-` and `_`.
    Url,
    /// The same and `.`.
    Dots,
    /// Letters, digits and `_`.
    Word,
    /// The same as `Url` and `/`.
    Path,
}

impl Set {
    fn contains(self, byte: u8) -> bool {
        match self {
            Self::Letters => byte.is_ascii_alphanumeric(),
            Self::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Self::Hex => byte.is_ascii_hexdigit(),
            Self::Url => is_base64url(byte),
            Self::Dots => is_base64url(byte) || byte == b'.',
            Self::Word => byte.is_ascii_alphanumeric() || byte == b'_',
            Self::Path => is_base64url(byte) || byte == b'/',
        }
    }
}

/// A kind of token: its prefix, and how many characters of which set follow.
#[derive(Debug)]
struct Form {
    prefix: &'static str,
    set: Set,
    least: usize,
    most: usize,
}

const fn form(prefix: &'static str, set: Set, least: usize, most: usize) -> Form {
    Form { prefix, set, least, most }
}

/// Sorted by prefix, for a search by the first byte. Longer prefixes come before their beginnings.
#[rustfmt::skip]
static FORMS: &[Form] = &[
    form("A3T", Set::Upper, 17, 17),
    form("ABIA", Set::Upper, 16, 16),
    form("ACCA", Set::Upper, 16, 16),
    form("AC", Set::Hex, 32, 32),
    form("AGE-SECRET-KEY-1", Set::Upper, 58, 58),
    form("AIza", Set::Url, 35, 35),
    form("AKIA", Set::Upper, 16, 16),
    form("APKA", Set::Upper, 16, 16),
    form("ASIA", Set::Upper, 16, 16),
    form("ATATT3", Set::Dots, 60, 300),
    form("ATCTT3", Set::Dots, 60, 300),
    form("CLOJARS_", Set::Letters, 60, 60),
    form("EAAA", Set::Url, 56, 64),
    form("EZAK", Set::Letters, 54, 54),
    form("FLWSECK-", Set::Url, 32, 64),
    form("FLWSECK_TEST-", Set::Url, 12, 64),
    form("GOCSPX-", Set::Url, 28, 28),
    form("HRKU-", Set::Url, 36, 64),
    form("NRAK-", Set::Upper, 27, 27),
    form("PMAK-", Set::Url, 59, 59),
    form("R8_", Set::Letters, 37, 40),
    form("SG.", Set::Dots, 60, 80),
    form("SK", Set::Hex, 32, 32),
    form("aio_", Set::Letters, 28, 28),
    form("api_org_", Set::Letters, 34, 34),
    form("dapi", Set::Hex, 32, 34),
    form("dckr_oat_", Set::Url, 27, 40),
    form("dckr_pat_", Set::Url, 27, 40),
    form("discord.com/api/webhooks/", Set::Path, 60, 120),
    form("discordapp.com/api/webhooks/", Set::Path, 60, 120),
    form("doo_v1_", Set::Hex, 64, 64),
    form("dop_v1_", Set::Hex, 64, 64),
    form("dor_v1_", Set::Hex, 64, 64),
    form("dp.pt.", Set::Letters, 40, 44),
    form("dp.st.", Set::Dots, 40, 80),
    form("duffel_live_", Set::Url, 43, 43),
    form("duffel_test_", Set::Url, 43, 43),
    form("figd_", Set::Url, 40, 64),
    form("figo_", Set::Url, 40, 64),
    form("fio-u-", Set::Url, 64, 64),
    form("fo1_", Set::Url, 43, 43),
    form("ghu_", Set::Letters, 36, 255),
    form("ghs_", Set::Letters, 36, 255),
    form("ghr_", Set::Letters, 36, 255),
    form("ghp_", Set::Letters, 36, 255),
    form("gho_", Set::Letters, 36, 255),
    form("github_pat_", Set::Word, 50, 255),
    form("glagent-", Set::Url, 20, 255),
    form("glcbt-", Set::Url, 20, 255),
    form("glc_", Set::Letters, 32, 400),
    form("gldt-", Set::Url, 20, 255),
    form("glffct-", Set::Url, 20, 255),
    form("glft-", Set::Url, 20, 255),
    form("glimt-", Set::Url, 20, 255),
    form("gloas-", Set::Url, 20, 255),
    form("glpat-", Set::Dots, 20, 300),
    form("glptt-", Set::Url, 20, 255),
    form("glrt-", Set::Dots, 20, 255),
    form("glsa_", Set::Word, 32, 64),
    form("glsoat-", Set::Url, 20, 255),
    form("gsk_", Set::Letters, 40, 64),
    form("hf_", Set::Letters, 30, 40),
    form("hooks.slack.com/services/", Set::Path, 36, 80),
    form("hooks.slack.com/workflows/", Set::Path, 36, 100),
    form("hvb.", Set::Url, 90, 300),
    form("hvs.", Set::Url, 24, 300),
    form("key-", Set::Hex, 32, 32),
    form("lin_api_", Set::Letters, 40, 48),
    form("npm_", Set::Letters, 36, 36),
    form("nvapi-", Set::Url, 60, 80),
    form("ntn_", Set::Letters, 40, 60),
    form("ops_eyJ", Set::Url, 200, 1_500),
    form("pnu_", Set::Letters, 36, 36),
    form("pplx-", Set::Letters, 40, 64),
    form("pscale_oauth_", Set::Dots, 32, 64),
    form("pscale_pw_", Set::Dots, 32, 64),
    form("pscale_tkn_", Set::Dots, 32, 64),
    form("pul-", Set::Hex, 40, 40),
    form("pypi-", Set::Url, 85, 400),
    form("r8_", Set::Letters, 37, 40),
    form("rdme_", Set::Letters, 70, 70),
    form("rk_live_", Set::Letters, 16, 250),
    form("rk_test_", Set::Letters, 16, 250),
    form("rubygems_", Set::Hex, 48, 48),
    form("sbp_", Set::Hex, 40, 44),
    form("secret_", Set::Letters, 43, 43),
    form("shippo_live_", Set::Hex, 40, 40),
    form("shippo_test_", Set::Hex, 40, 40),
    form("shpat_", Set::Hex, 32, 32),
    form("shpca_", Set::Hex, 32, 32),
    form("shppa_", Set::Hex, 32, 32),
    form("shpss_", Set::Hex, 32, 32),
    form("sk-admin-", Set::Url, 20, 250),
    form("sk-ant-", Set::Url, 20, 250),
    form("sk-or-v1-", Set::Hex, 64, 64),
    form("sk-proj-", Set::Url, 20, 250),
    form("sk-svcacct-", Set::Url, 20, 250),
    form("sk-", Set::Letters, 32, 64),
    form("sk_live_", Set::Letters, 16, 250),
    form("sk_test_", Set::Letters, 16, 250),
    form("sntrys_", Set::Url, 60, 500),
    form("sntryu_", Set::Hex, 64, 64),
    form("sq0atp-", Set::Url, 22, 43),
    form("sq0csp-", Set::Url, 22, 43),
    form("sq0idp-", Set::Url, 22, 43),
    form("tfp_", Set::Dots, 40, 64),
    form("tskey-", Set::Url, 20, 100),
    form("vercel_blob_rw_", Set::Word, 24, 100),
    form("whsec_", Set::Letters, 24, 250),
    form("xai-", Set::Letters, 60, 100),
    form("xapp-", Set::Url, 20, 250),
    form("xkeysib-", Set::Url, 64, 100),
    form("xoxa-", Set::Url, 10, 250),
    form("xoxb-", Set::Url, 10, 250),
    form("xoxc-", Set::Url, 10, 250),
    form("xoxd-", Set::Url, 10, 250),
    form("xoxe-", Set::Url, 10, 250),
    form("xoxe.xoxb-", Set::Url, 10, 250),
    form("xoxe.xoxp-", Set::Url, 10, 250),
    form("xoxo-", Set::Url, 10, 250),
    form("xoxp-", Set::Url, 10, 250),
    form("xoxr-", Set::Url, 10, 250),
    form("xoxs-", Set::Url, 10, 250),
    form("ya29.", Set::Url, 20, 500),
];

/// For each byte, where in `FORMS` the prefixes that start with it are.
static STARTS: [(u8, u8); 128] = starts();

const fn starts() -> [(u8, u8); 128] {
    let mut table = [(0, 0); 128];
    let mut index = 0;
    while index < FORMS.len() {
        let first = FORMS[index].prefix.as_bytes()[0] as usize;
        if table[first].1 == 0 {
            table[first] = (index as u8, index as u8 + 1);
        } else {
            table[first].1 = index as u8 + 1;
        }
        index += 1;
    }
    table
}

/// For each byte, the second bytes of the prefixes that start with it, as bits.
static SECONDS: [u128; 128] = {
    let mut table = [0; 128];
    let mut index = 0;
    while index < FORMS.len() {
        let prefix = FORMS[index].prefix.as_bytes();
        table[prefix[0] as usize] |= 1 << prefix[1];
        index += 1;
    }
    table
};

/// What an examination of a word says.
pub(super) enum Token {
    /// There is a finding that ends here.
    Ends(usize),
    No,
    /// More text is needed.
    Unsure,
}

impl Scan<'_> {
    /// Examines the start of a word for a token of a provider.
    pub(super) fn token(&mut self, start: usize) -> Token {
        let view = self.view;
        let Some(first) = view.at(start) else { return Token::No };
        let (from, to) = STARTS.get(usize::from(first)).copied().unwrap_or_default();
        let second = view.at(start + 1).unwrap_or_default();
        // Words of a language rarely begin like a token.
        let to = if second < 128 && SECONDS[usize::from(first & 127)] >> second & 1 == 1 { to } else { from };
        for form in FORMS.get(usize::from(from)..usize::from(to)).unwrap_or_default() {
            if !view.starts_with(start, form.prefix.as_bytes()) {
                continue;
            }
            let body = start + form.prefix.len();
            let mut end = view.run(body, form.most + 1, |byte| form.set.contains(byte));
            if end == view.len() && !view.is_whole && end <= body + form.most {
                return Token::Unsure;
            }
            while matches!(form.set, Set::Dots | Set::Path)
                && end > body
                && matches!(view.at(end - 1), Some(b'.' | b'/'))
            {
                end -= 1;
            }
            let text = view.slice(body, end);
            let is_long_enough = text.len() >= form.least && text.len() <= form.most;
            // Too few different characters are a placeholder: `ghp_xxxxxxxx…`.
            if is_long_enough
                && entropy_tenths(text) >= 24
                && view.at(end).is_none_or(|byte| !byte.is_ascii_alphanumeric())
            {
                self.found(Kind::ApiKey, start..end, 95);
                return Token::Ends(end);
            }
        }
        if first == b'e' && start >= self.state.no_jwt_before && view.starts_with(start, b"eyJ") {
            return self.jwt(start);
        }
        if matches!(first, b'M' | b'N' | b'O') {
            return self.discord(start);
        }
        Token::No
    }

    fn jwt(&mut self, start: usize) -> Token {
        let view = self.view;
        let header = view.run(start, HEADER_MOST, is_base64url);
        if header == view.len() && !view.is_whole && header < start + HEADER_MOST {
            return Token::Unsure;
        }
        if view.at(header) != Some(b'.') || !is_header(view.slice(start, header)) {
            // What starts later in the same word has the same end: it is not read again.
            self.state.no_jwt_before = header;
            return Token::No;
        }
        let end = view.run(header + 1, TOKEN_MOST, |byte| is_base64url(byte) || byte == b'.');
        if end == view.len() && !view.is_whole && end < header + 1 + TOKEN_MOST {
            return Token::Unsure;
        }
        let rest = view.slice(header + 1, end);
        let kept = rest.iter().rposition(|byte| *byte != b'.').map_or(0, |last| last + 1);
        let parts = rest.split(|byte| *byte == b'.').count() + 1;
        // Unsigned tokens end with a dot; encrypted ones have five parts.
        let end = header + 1 + kept;
        if kept < 8 || !(3..=6).contains(&parts) {
            self.state.no_jwt_before = header + 1 + rest.len();
            return Token::No;
        }
        self.found(Kind::Jwt, start..end, 98);
        Token::Ends(end)
    }

    /// A token of a Discord bot: the number of a user in Base64, a time, and a signature.
    fn discord(&mut self, start: usize) -> Token {
        let view = self.view;
        let user = view.run(start, 29, is_base64url);
        let time = view.run(user + 1, 7, is_base64url);
        let end = view.run(time + 1, 50, is_base64url);
        let lengths = (user - start, time.saturating_sub(user + 1), end.saturating_sub(time + 1));
        let is_form =
            matches!(lengths, (23..=28, 6, 27..=45)) && view.at(user) == Some(b'.') && view.at(time) == Some(b'.');
        if !is_form || !is_number_in_base64(&view, start, user) {
            return Token::No;
        }
        self.found(Kind::ApiKey, start..end, 95);
        Token::Ends(end)
    }

    /// A token of a Telegram bot, found by its number: `123456789:AA…`.
    pub(super) fn telegram(&mut self, start: usize, digits_end: usize) -> Option<usize> {
        let view = self.view;
        if !(8..=10).contains(&(digits_end - start)) || !view.starts_with(digits_end, b":AA") {
            return None;
        }
        let end = view.run(digits_end + 1, 40, is_base64url);
        let secret = view.slice(digits_end + 1, end);
        if !(34..=36).contains(&secret.len()) || entropy_tenths(secret) < 24 {
            return None;
        }
        self.found(Kind::ApiKey, start..end, 95);
        Some(end)
    }
}

fn is_header(text: &[u8]) -> bool {
    let Ok(decoded) = URL_SAFE_NO_PAD.decode(text) else { return false };
    let Ok(serde_json::Value::Object(header)) = serde_json::from_slice(&decoded) else { return false };
    header.contains_key("alg") || header.contains_key("typ") || header.contains_key("enc")
}

fn is_number_in_base64(view: &View<'_>, start: usize, end: usize) -> bool {
    URL_SAFE_NO_PAD.decode(view.slice(start, end)).is_ok_and(|number| number.iter().all(u8::is_ascii_digit))
}

#[cfg(test)]
mod tests {
    use super::FORMS;

    #[test]
    fn prefixes_with_the_same_first_byte_are_together_and_longer_ones_come_first() {
        assert!(FORMS.len() < 255);
        for (index, form) in FORMS.iter().enumerate() {
            assert!(form.least <= form.most && form.prefix.is_ascii(), "{form:?}");
            for later in &FORMS[index + 1..] {
                assert_ne!(form.prefix, later.prefix);
            }
        }
        let firsts: Vec<u8> = FORMS.iter().map(|form| form.prefix.as_bytes()[0]).collect();
        let mut runs = firsts.clone();
        runs.dedup();
        let mut different = firsts;
        different.sort_unstable();
        different.dedup();
        assert_eq!(runs.len(), different.len());
    }
}
