"""The network of a run: the environment of programs, certificates, and hints."""

from __future__ import annotations

import os

from driver import Guest, GuestCase

PROXY = {"proxy": "127.0.0.1:3128"}
TRUSTING = {**PROXY, "certificates": "ADDITIONAL"}
PROXIES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
TRUST = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT")
NAMES = (*PROXIES, "ALL_PROXY", "all_proxy", *TRUST)
SEEN = f"import os\n{{name: os.environ[name] for name in {NAMES!r} if name in os.environ}}"
EXPECTED = {name: "http://127.0.0.1:3128" for name in PROXIES}


class Network(GuestCase):
    def test_programs_find_the_proxy_in_every_run_with_a_network(self) -> None:
        self.assertEqual(self.result(SEEN), {})
        self.assertEqual(self.result(SEEN, network=PROXY), EXPECTED)
        spoilt = "import os\nos.environ['http_proxy'] = 'http://other'\ndel os.environ['HTTPS_PROXY']"
        self.result(spoilt, network=PROXY)
        self.assertEqual(self.result(SEEN, network=PROXY), EXPECTED)
        self.assertEqual(self.result(SEEN), {}, "a run without a network")

    def test_variables_of_the_user_do_not_override_it(self) -> None:
        show = 'echo "$http_proxy $HTTPS_PROXY $own"'
        self.assertTrue(self.guest.bash("export http_proxy=http://other own=kept", network=PROXY)["ok"])
        self.assertTrue(self.guest.bash(show, network=PROXY)["ok"])
        self.assertTrue(self.guest.bash(show, network=PROXY, vars={"http_proxy": "http://other"})["ok"])
        self.assertTrue(self.guest.bash(show)["ok"])
        shown = "http://127.0.0.1:3128 http://127.0.0.1:3128 kept\n"
        self.assertEqual(self.guest.stdout(), shown + shown + "  kept\n")

    def test_certificates_are_added_to_those_of_the_system(self) -> None:
        seen = self.result(SEEN, network=TRUSTING)
        bundle = seen["SSL_CERT_FILE"]
        self.assertEqual(seen, {**EXPECTED, **{name: bundle for name in TRUST}})
        self.assertEqual(os.path.dirname(bundle), self.guest.state)
        with open(bundle) as file:
            self.assertEqual(file.read(), "SYSTEM\nADDITIONAL")
        self.result(f"open({bundle!r}, 'w').close()", network=TRUSTING)
        self.result("None", network=TRUSTING)
        with open(bundle) as file:
            self.assertEqual(file.read(), "SYSTEM\nADDITIONAL", "it is written for every run")
        self.assertEqual(self.result(SEEN, network=PROXY), EXPECTED)

    def test_the_hint_is_for_runs_without_a_network(self) -> None:
        refused = "import errno, socket\nraise OSError(errno.ENETUNREACH, 'Network is unreachable')"
        self.assertEqual(self.error(refused)["hint"], "network is off in this sandbox")
        self.assertNotIn("hint", self.error(refused, network=PROXY))
        self.assertEqual(self.error(refused)["hint"], "network is off in this sandbox")

    def test_asyncio_does_not_send_messages(self) -> None:
        code = "import asyncio.selector_events as events, socket\n[hasattr(socket.socket, 'sendmsg'), getattr(events, '_HAS_SENDMSG', False)]"
        self.assertEqual(self.result(code)[0], True)
        self.assertEqual(self.result(code, network=PROXY), [False, False])

    def test_an_invalid_network_ends_the_process(self) -> None:
        for network in ("127.0.0.1", {"proxy": 1}, {}, {**PROXY, "certificates": 1}):
            guest = Guest()
            guest.start("1", network=network)
            self.assertEqual(guest.process.wait(30), 70, network)
            guest.close()
