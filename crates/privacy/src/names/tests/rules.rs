//! What the rules add to the network, and what they take away. Each refusal has a control that is found.

use super::found;

#[test]
fn what_introduces_a_name_makes_it_one() {
    let texts = [
        ("Dear Quillon,\nthanks", "P:Quillon"),
        ("Kind regards,\nQuillon Vane", "P:Quillon Vane"),
        ("my name is zebulon", "P:zebulon"),
        ("Assignee: Quillon Vane", "P:Quillon Vane"),
        ("{\"customer_name\": \"Quillon Vane\"}", "P:Quillon Vane"),
        ("Quillon Vane <q.vane@example.com> wrote", "P:Quillon Vane"),
        ("ask Prof. Quillon about it", "P:Quillon"),
    ];
    for (text, expected) in texts {
        assert_eq!(found(text), [expected], "{text}");
    }
}

#[test]
fn what_looks_introduced_can_be_something_else() {
    let texts = [
        "Dear Customer,\nthanks",
        "Kind regards,\nThe Support Team",
        "my name is not important",
        "Company name: Quillon Ltd",
        "{\"file_name\": \"Report\"}",
        "Hello World!",
        "Server: Apache",
    ];
    for text in texts {
        assert_eq!(found(text), [""; 0], "{text}");
    }
}

#[test]
fn parts_of_names_are_found_again() {
    let text = "Tell Margaret Attwater to call. Attwater, again, did not.";
    assert_eq!(found(text), ["P:Margaret Attwater", "P:Attwater"]);
}

#[test]
fn organisations_are_no_persons() {
    assert_eq!(found("We bought it from Marsh, Webb and Stone Ltd."), [""; 0]);
    assert_eq!(found("We met Margaret Webb."), ["P:Margaret Webb"]);
    assert_eq!(found("the Euler method"), [""; 0]);
}

#[test]
fn whole_addresses_are_one_finding() {
    let addresses = [
        "2210 W Fullerton Ave, Apt 3, Chicago, IL 60647",
        "17 Quarry Lane, Sheffield, S11 8TP",
        "Bahnhofstrasse 3, 8001 Zürich, Switzerland",
        "Avenida da Liberdade 110",
        "8 rue des Lilas in Lyon",
        "P.O. Box 1432, Enugu, Nigeria",
        "PSC 802, Box 12\nAPO AE 09499",
        "54 Cedar Crescent",
        "4844 Lindegade 52\nApt. 656\nHolstebro\n\nDenmark 35018",
        "ul. Krucza 24",
    ];
    for address in addresses {
        assert_eq!(found(&format!("Send it to {address}.")), [format!("A:{address}")], "{address}");
    }
}

#[test]
fn numbers_before_words_are_no_addresses() {
    let texts = [
        "Version 12 Final Release",
        "we saw 12 Monkeys in 1995",
        "Chapter 3 Section 4",
        "the 500 errors per second",
        "port 8080 is open",
        "in 2019 Paint the house",
        "return 42 if Unit is None",
    ];
    for text in texts {
        assert_eq!(found(text), [""; 0], "{text}");
    }
}

#[test]
fn places_are_addresses() {
    assert_eq!(found("She flew to Ljubljana yesterday."), ["A:Ljubljana"]);
    assert_eq!(found("They live in Denmark."), ["A:Denmark"]);
    assert_eq!(found("My zip code is 94110"), ["A:94110"]);
    assert_eq!(found("My order number is 94110"), [""; 0]);
}

#[test]
fn code_and_logs_have_no_names() {
    let texts = [
        "import java.util.HashMap;\npublic class Main { private static final Logger LOG = null; }",
        "ERROR 2024-05-01 Worker-3 Connection refused: Redis at 10.0.0.7:6379",
        "def Foo(self): return Bar.Baz(None, True)",
        "| Monday | Tuesday | Wednesday |",
        "kubectl get pods -n Default",
    ];
    for text in texts {
        assert_eq!(found(text), [""; 0], "{text}");
    }
}
