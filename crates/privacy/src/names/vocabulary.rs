//! Lists of words that are evidence for or against names and addresses.

use std::collections::HashMap;
use std::ops::{BitOr, BitOrAssign};
use std::sync::OnceLock;

/// What is known about a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Traits(u32);

impl Traits {
    /// A form of address before a name: `Mrs`.
    pub(super) const TITLE: Self = Self(1);
    /// A word that is capitalised at the beginning of a sentence, and is no part of a name: `the`.
    pub(super) const FUNCTION: Self = Self(1 << 1);
    /// A word that is often capitalised, and is no name of a person: `Monday`, `Python`, `Invoice`.
    pub(super) const NO_PERSON: Self = Self(1 << 2);
    /// A given name that is hardly ever anything else.
    pub(super) const GIVEN: Self = Self(1 << 3);
    /// A part of names of organisations: `Ltd`.
    pub(super) const ORGANISATION: Self = Self(1 << 4);
    /// What names of streets end with: `Street`.
    pub(super) const STREET: Self = Self(1 << 5);
    /// What names of streets can end with, and many other things: `Hill`.
    pub(super) const MAYBE_STREET: Self = Self(1 << 6);
    /// What names of streets begin with: `Rue`.
    pub(super) const STREET_BEGIN: Self = Self(1 << 7);
    /// What stands before the number of an apartment: `Apt.`.
    pub(super) const UNIT: Self = Self(1 << 8);
    /// The same, but also used for other things: `Unit`, `Floor`.
    pub(super) const MAYBE_UNIT: Self = Self(1 << 9);
    /// A state, province or its abbreviation.
    pub(super) const STATE: Self = Self(1 << 10);
    /// A country of one word.
    pub(super) const COUNTRY: Self = Self(1 << 11);
    /// A small word inside a name: `van`.
    pub(super) const PARTICLE: Self = Self(1 << 12);
    /// A word that greets or thanks the person whose name follows.
    pub(super) const GREETING: Self = Self(1 << 13);
    /// A word that names a field with a person: `Customer`.
    pub(super) const FIELD: Self = Self(1 << 14);
    /// A word that is often capitalised, and is no place.
    pub(super) const NO_PLACE: Self = Self(1 << 15);
    /// A word that is addressed in place of a name: `Dear All`.
    pub(super) const ANYBODY: Self = Self(1 << 16);
    /// A word before a place where somebody or something is: `lives`.
    pub(super) const WHEREABOUTS: Self = Self(1 << 17);
    /// A point of the compass in an address: `NW`.
    pub(super) const COMPASS: Self = Self(1 << 18);
    /// A verb or noun before `to`, `in`, `from` or `at` and the name of a place: `flew`.
    pub(super) const MOTION: Self = Self(1 << 20);
    /// What only persons do: `lives`.
    pub(super) const DEED: Self = Self(1 << 21);
    /// What is done for or at an employer: `works`.
    pub(super) const WORK: Self = Self(1 << 22);
    /// A word that closes a letter: `Regards`.
    pub(super) const CLOSING: Self = Self(1 << 19);

    /// What is known about a word, whatever its case and with or without a full stop.
    pub(super) fn of(word: &str) -> Self {
        static WORDS: OnceLock<HashMap<&'static str, Traits>> = OnceLock::new();
        let words = WORDS.get_or_init(|| {
            let mut words: HashMap<&str, Self> = HashMap::new();
            for (list, traits) in LISTS {
                for word in list.split_whitespace() {
                    *words.entry(word).or_default() |= *traits;
                }
            }
            words
        });
        let word = word.strip_suffix('.').unwrap_or(word);
        if word.len() > LONGEST {
            return Self::default();
        }
        if !word.is_ascii() {
            return words.get(word.to_lowercase().as_str()).copied().unwrap_or_default();
        }
        // Nothing is allocated for the words of most texts.
        let mut lower = [0; LONGEST];
        let lower = &mut lower[..word.len()];
        lower.copy_from_slice(word.as_bytes());
        lower.make_ascii_lowercase();
        std::str::from_utf8(lower).ok().and_then(|lower| words.get(lower)).copied().unwrap_or_default()
    }

    /// Whether at least one of some traits is there.
    pub(super) fn any(self, traits: Self) -> bool {
        self.0 & traits.0 != 0
    }
}

impl BitOr for Traits {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Traits {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

/// No word of the lists is longer.
const LONGEST: usize = 24;

/// Endings of names of streets that are written as one word.
pub(super) const STREET_ENDINGS: &[&str] = &[
    "straße", "strasse", "straat", "gatan", "gata", "gate", "gade", "stræde", "vej", "vejen", "veien", "vegen",
    "vägen", "väg", "gränd", "torget", "katu", "kuja", "polku", "tie", "weg", "laan", "plein", "gracht", "singel",
    "dreef", "gasse", "allee", "allé", "platz", "ufer", "steig", "braut", "stígur", "vegur", "tänav", "ulica", "utca",
    "bakken", "parken", "stien", "krogen", "toften", "strede", "damm", "ring", "hof", "hove",
];

/// Countries whose names have several words.
pub(super) const LONG_COUNTRIES: &[&[&str]] = &[
    &["united", "states", "of", "america"],
    &["united", "states"],
    &["united", "kingdom"],
    &["new", "zealand"],
    &["south", "africa"],
    &["south", "korea"],
    &["north", "korea"],
    &["saudi", "arabia"],
    &["sri", "lanka"],
    &["costa", "rica"],
    &["el", "salvador"],
    &["puerto", "rico"],
    &["czech", "republic"],
    &["dominican", "republic"],
    &["united", "arab", "emirates"],
    &["hong", "kong"],
    &["ivory", "coast"],
    &["burkina", "faso"],
    &["sierra", "leone"],
    &["papua", "new", "guinea"],
    &["bosnia", "and", "herzegovina"],
    &["north", "macedonia"],
    &["san", "marino"],
    &["great", "britain"],
    &["northern", "ireland"],
    &["faroe", "islands"],
    &["south", "sudan"],
    &["trinidad", "and", "tobago"],
    &["equatorial", "guinea"],
    &["cape", "verde"],
];

const LISTS: &[(&str, Traits)] = &[
    (
        "mr mrs ms miss mx dr prof professor sir madam señor señora sr sra herr frau mme mlle monsieur madame dame lord lady
        rev reverend fr father sister rabbi imam capt captain sgt sergeant lt lieutenant col colonel maj major gen
        sen senator rep hon judge justice nurse",
        Traits::TITLE,
    ),
    (
        "the a an and or but nor so yet if then else when while where who whom whose which what why how that this these
        those there here it its he she they we you i me him her us them my your his our their mine yours hers ours
        is are was were be been being am do does did done have has had having will would shall should can could may
        might must not no yes ok okay please thanks thank sorry as at by for from in into of off on onto out over to
        up with without within about above after again against all also always any because before below between both
        down during each ever every few first further get got had just last least less let lets like made make many
        more most much never new next none now often old once one only other others our own per same see several since
        some soon still such than too two three four five six seven eight nine ten under until unless upon use used
        using very want was well went were whether yesterday today tomorrow tonight however therefore although though
        despite because according another anyone someone everyone something anything nothing everything note also
        perhaps maybe instead meanwhile finally recently currently unfortunately fortunately usually sometimes
        hello hi hey dear good great best try check click open close run read write find look call go come take give
        put set say said tell ask keep know think need show add update delete remove create start stop send sent",
        Traits::FUNCTION,
    ),
    (
        "monday tuesday wednesday thursday friday saturday sunday mon tue wed thu fri sat sun january february march april
        may june july august september october november december jan feb mar apr jun jul aug sep sept oct nov dec
        spring summer autumn winter christmas easter thanksgiving halloween ramadan hanukkah
        python java javascript typescript rust ruby perl php kotlin swift scala haskell golang clojure erlang elixir
        django flask rails react angular vue node npm docker kubernetes linux ubuntu debian fedora windows macos android
        ios iphone ipad chrome firefox safari edge opera excel word outlook powerpoint slack teams zoom skype jira
        confluence github gitlab bitbucket jenkins ansible terraform kafka redis mongo mongodb postgres postgresql mysql
        sqlite oracle spark hadoop elastic elasticsearch grafana prometheus nginx apache tomcat maven gradle bash
        git svn aws azure gcp cloud google microsoft apple amazon facebook meta twitter instagram whatsapp telegram
        youtube netflix spotify uber airbnb paypal stripe visa mastercard amex tesla toyota honda bmw audi volkswagen
        nike adidas samsung sony nintendo intel nvidia amd ibm dell lenovo cisco siemens boeing airbus
        error warning info debug trace fatal exception null none true false undefined nan todo fixme class def function
        return import export public private static void string integer float boolean object array list dict map
        select insert where update join table index server client user admin root guest customer account invoice order
        ticket issue request response payment password email mail phone address date time name subject message
        attachment attached regards sincerely cheers best kind warm thanks team support service help desk sales marketing
        hr legal finance engineering department manager director president chairman secretary minister ceo cto cfo coo
        bluetooth wifi internet web api url http https json xml html css sql pdf csv id uuid ip
        bible quran torah god jesus christ allah buddha lord heaven earth moon sun mars venus jupiter saturn
        english french german spanish italian portuguese dutch russian chinese japanese korean arabic hindi turkish
        polish swedish norwegian danish finnish greek hebrew latin american british european asian african indian
        mexican canadian australian irish scottish welsh christian muslim jewish catholic hindu buddhist
        zoolander metallica beatles hobbit hobbits tube album song songs movie film book novel chapter page figure section
        apt suite unit box street road avenue lane drive north south east west northern southern eastern western
        city town village country county state university college school hospital church park museum hotel airport
        station bank company corp inc ltd llc gmbh group foundation institute association committee council
        covid coronavirus hiv aids vitamin aspirin ibuprofen paracetamol insulin
        congress senate parliament court constitution republican republicans democrat democrats brexit
        answer question mystery comedy action adventure drama animation kids family romance horror thriller fantasy
        directed written produced starring wisdom",
        Traits::NO_PERSON,
    ),
    (
        "python java javascript typescript rust ruby kotlin swift django flask react docker kubernetes linux ubuntu
        windows android chrome excel word slack jira github gitlab jenkins error warning info debug null none true false
        api url http https json xml html css sql pdf csv monday tuesday wednesday thursday friday saturday sunday
        january february march april may june july august september october november december am pm st mr mrs dr ceo cto
        english french german spanish italian portuguese dutch russian chinese japanese korean arabic internet web
        earth moon mars venus covid bluetooth wifi iphone ipad google microsoft apple amazon facebook twitter
        todo fixme class self main master branch commit nan ok id uuid utc gmt est pst cet",
        Traits::NO_PLACE,
    ),
    (
        "inc ltd llc corp corporation co company plc gmbh ag sa srl bv nv oy ab as kg kft sarl spa pty llp group holdings
        holding partners associates sons bros brothers bank university college school institute foundation association
        society committee council department ministry agency bureau commission authority hospital clinic church museum
        hotel restaurant cafe airlines airways motors industries systems solutions services technologies technology
        software labs laboratories consulting ventures capital records studios pictures entertainment media news times
        post journal magazine press radio tv network channel club fc united federation union league team band orchestra
        store shop market supermarket pharmacy insurance trust fund award prize cup championship tournament festival
        conference summit project program programme api framework library act bill treaty",
        Traits::ORGANISATION,
    ),
    (
        "street st road rd avenue ave av lane ln drive dr boulevard blvd court ct terrace ter crescent cres close
        highway hwy parkway pkwy alley mews square sq turnpike expressway str straße strasse",
        Traits::STREET,
    ),
    (
        "annex bay beach bend bluff bluffs branch bridge brook brooks burg burgs bypass camp canyon cape causeway center
        centre centers circle circles cliff cliffs club common commons corner corners course courts cove coves creek
        crest crossing crossroad curve dale dam divide drives estate estates extension extensions fall falls ferry field
        fields flat flats ford fords forest forge forges fork forks fort freeway garden gardens gateway glen glens green
        greens grove groves harbor harbors haven heights hill hills hollow inlet island islands isle junction junctions
        key keys knoll knolls lake lakes land landing light lights loaf lock locks lodge loop mall manor manors meadow
        meadows mill mills mission motorway mount mountain mountains neck orchard oval overpass park parks parkways pass
        passage path pike pine pines place plain plains plaza plazas point points port ports prairie radial ramp ranch
        rapid rapids rest ridge ridges river roads route row run shoal shoals shore shores skyway spring springs
        spur spurs squares station stravenue stream streets summit throughway trace track trafficway trail trailer
        tunnel underpass union unions valley valleys viaduct view views village villages ville vista walk walks wall way
        ways well wells way út utca tér rkp körút sétány köz gt gata vei vej väg tee tänav maantee pst puiestee nám
        náměstí ulice třída sokak cad trg ulica cesta bulevar",
        Traits::MAYBE_STREET,
    ),
    (
        "rua rue via calle avenida avenue av avda boulevard bd blvd ul ulica aleja al plac os piazza piazzale viale corso
        largo vicolo plaza paseo camino carrer carretera praça travessa rodovia estrada alameda quai chemin place allée
        route impasse cours rruga strada bulevardul calea şoseaua jalan jln λεωφόρος οδός λεωφ улица ул проспект пр
        shari sharia",
        Traits::STREET_BEGIN,
    ),
    ("apt apartment suite ste appt lägenhet lgh", Traits::UNIT),
    ("unit flat floor fl room rm box building bldg lot block office", Traits::MAYBE_UNIT),
    (
        "al ak az ar ca co ct de fl ga hi id il in ia ks ky la me md ma mi mn ms mo mt ne nv nh nj nm ny nc nd oh ok or pa
        ri sc sd tn tx ut vt va wa wv wi wy dc pr gu vi ap aa ae ab bc mb nb nl ns nt nu on pe qc sk yt nsw vic qld tas
        alabama alaska arizona arkansas california colorado connecticut delaware florida georgia hawaii idaho illinois
        indiana iowa kansas kentucky louisiana maine maryland massachusetts michigan minnesota mississippi missouri
        montana nebraska nevada ohio oklahoma oregon pennsylvania tennessee texas utah vermont virginia
        washington wisconsin wyoming ontario quebec alberta manitoba saskatchewan victoria queensland tasmania",
        Traits::STATE,
    ),
    (
        "afghanistan albania algeria andorra angola argentina armenia australia austria azerbaijan bahamas bahrain
        bangladesh barbados belarus belgium belize benin bhutan bolivia botswana brazil brunei bulgaria burundi cambodia
        cameroon canada chile china colombia comoros congo croatia cuba cyprus czechia denmark djibouti dominica ecuador
        egypt eritrea estonia eswatini ethiopia fiji finland france gabon gambia germany ghana greece greenland grenada
        guatemala guinea guyana haiti honduras hungary iceland india indonesia iran iraq ireland israel italy jamaica
        japan kazakhstan kenya kiribati kosovo kuwait kyrgyzstan laos latvia lebanon lesotho liberia libya liechtenstein
        lithuania luxembourg madagascar malawi malaysia maldives mali malta mauritania mauritius mexico micronesia
        moldova monaco mongolia montenegro morocco mozambique myanmar namibia nauru nepal netherlands nicaragua niger
        nigeria norway oman pakistan palau palestine panama paraguay peru philippines poland portugal qatar romania
        russia rwanda samoa senegal serbia seychelles singapore slovakia slovenia somalia spain sudan suriname sweden
        switzerland syria taiwan tajikistan tanzania thailand togo tonga tunisia turkey türkiye turkmenistan
        tuvalu uganda ukraine uruguay uzbekistan vanuatu venezuela vietnam yemen zambia zimbabwe england scotland wales
        usa uk uae deutschland österreich schweiz italia españa brasil norge sverige danmark suomi polska",
        Traits::COUNTRY,
    ),
    ("de da do dos das des dei degli del della di du la le los van von der den zu zur ter ten bin ibn al el y e af", Traits::PARTICLE),
    ("hi hello hey dear thanks cheers welcome", Traits::GREETING),
    (
        "name names fullname customer client contact patient employee assignee reporter owner author cardholder
        attn attention recipient sender from to cc bcc signed manager applicant tenant guest passenger student teacher
        user by beneficiary payee surname holder agent representative rep candidate visitor member requester caller",
        Traits::FIELD,
    ),
    (
        "all team sir madam customer client user colleague colleagues friend friends folks guys everyone everybody there
        support valued reader subscriber member members both again people ladies gentlemen parents students hiring
        recruiter santa diary god world mom dad mum darling honey sweetheart buddy mate bro dude sales admin you for",
        Traits::ANYBODY,
    ),
    (
        "live lives lived living reside resides resided residing address located deliver delivered ship shipped send
        moved meet office headquarters situated residence home stay staying drop drops dropped mailed",
        Traits::WHEREABOUTS,
    ),
    ("n s e w ne nw se sw north south east west", Traits::COMPASS),
    ("regards sincerely cheers yours best thanks love greetings faithfully truly respectfully cordially", Traits::CLOSING),
    (
        "flew fly flies flying travel travels travelled traveled travelling traveling drove drives driving arrive arrives
        arrived arriving grew born live lives lived living reside resides resided residing originally trip trips vacation
        holiday returned returning moved relocated relocating stationed raised",
        Traits::MOTION,
    ),
    (
        "lives lived resides resided married smiled laughed nodded whispered shouted replied emailed texted phoned wrote
        asked told complained apologised apologized confirmed requested",
        Traits::DEED,
    ),
    ("work works worked working employed job year years interned internship", Traits::WORK),
    (super::given_names::GIVEN_NAMES, Traits::GIVEN),
];
