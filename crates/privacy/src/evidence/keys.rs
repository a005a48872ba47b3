//! The keys that are evidence.

/// What is expected as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// A part of a name that is certain to be one of a person.
    PartOfName,
    /// A name that may be one of something else: `name`.
    Name,
    Street,
    City,
    PostalCode,
    Phone,
    SocialSecurity,
    NationalId,
    Passport,
    DriverLicense,
    Birth,
    Card,
    BankRouting,
    BankAccount,
    Secret,
}

/// Endings of keys, in words joined by underscores.
#[rustfmt::skip]
pub(super) const KEYS: [(Expected, &[&str]); 14] = [
    (Expected::PartOfName, &[
        "first_name", "firstname", "last_name", "lastname", "given_name", "givenname", "family_name",
        "familyname", "surname", "middle_name", "middlename", "full_name", "fullname", "maiden_name",
        "forename", "fname", "lname", "customer_name", "contact_name", "patient_name", "employee_name",
        "client_name", "cardholder", "cardholder_name", "card_holder", "account_holder", "owner_name",
        "recipient_name", "sender_name", "guest_name", "person_name", "legal_name", "preferred_name",
        "nickname", "vorname", "nachname", "prenom", "apellido", "apellidos", "cognome", "person", "patient",
    ]),
    (Expected::Name, &[
        "name", "display_name", "displayname", "author", "assignee", "reporter", "contact", "recipient",
        "sender", "attendee", "customer", "employee", "manager", "signed_by", "approved_by",
    ]),
    (Expected::Street, &[
        "street", "street_address", "streetaddress", "street_name", "address", "address_line", "address_line_1",
        "address_line_2", "address_1", "address_2", "addressline1", "addressline2", "addr", "strasse", "rue",
        "direccion", "indirizzo", "adresse", "residence",
    ]),
    (Expected::City, &[
        "city", "town", "municipality", "ort", "stadt", "ville", "ciudad", "birthplace", "place_of_birth",
    ]),
    (Expected::PostalCode, &[
        "zip", "zip_code", "zipcode", "postal_code", "postalcode", "post_code", "postcode", "plz",
    ]),
    (Expected::Phone, &[
        "phone", "phone_number", "phonenumber", "phone_no", "phones", "tel", "telephone", "telephone_number",
        "mobile", "mobile_number", "mobile_phone", "cell", "cellphone", "cell_phone", "fax", "fax_number",
        "msisdn", "contact_number", "whatsapp", "phone_1", "phone_2", "telefon", "telefono", "handy",
    ]),
    (Expected::SocialSecurity, &[
        "ssn", "social_security", "social_security_number", "socialsecuritynumber", "itin", "us_ssn",
        "ssn_number",
    ]),
    (Expected::NationalId, &[
        "national_id", "nationalid", "national_id_number", "identity_number", "identity_card_number", "id_card",
        "id_card_number", "id_number", "personal_number", "personal_id", "citizen_id",
        "national_insurance_number", "ni_number", "nino", "nhs_number", "tax_id", "taxid", "tax_number",
        "taxpayer_id", "tin", "tfn", "sin", "dni", "nie", "nif", "bsn", "pesel", "personnummer",
        "fodselsnummer", "cpr", "cpf", "aadhaar", "aadhar", "pan_number", "codice_fiscale", "nir", "ahv", "avs",
        "rut", "curp", "cnp", "oib", "egn", "steuer_id",
    ]),
    (Expected::Passport, &[
        "passport", "passport_number", "passportnumber", "passport_no", "passport_id",
    ]),
    (Expected::DriverLicense, &[
        "driver_license", "drivers_license", "driver_licence", "drivers_licence", "driving_licence",
        "driving_license", "driver_license_number", "drivers_license_number", "driving_licence_number",
        "driverlicense", "dl_number", "licence_number",
    ]),
    (Expected::Birth, &[
        "dob", "date_of_birth", "dateofbirth", "birth_date", "birthdate", "birthday", "born", "born_on",
        "geburtsdatum", "bday",
    ]),
    (Expected::Card, &[
        "card_number", "cardnumber", "credit_card", "creditcard", "credit_card_number", "debit_card", "card_no",
        "cc_number", "ccnumber", "cc_num", "pan", "card", "cc",
    ]),
    (Expected::BankRouting, &[
        "routing_number", "routingnumber", "routing", "aba", "aba_number", "routing_no",
        "routing_transit_number",
    ]),
    (Expected::BankAccount, &[
        "account_number", "accountnumber", "account_no", "acct_number", "acct_no", "bank_account",
        "bank_account_number", "kontonummer",
    ]),
];

/// Words before an ending that make it something else: `file_name`, `email_address`.
#[rustfmt::skip]
pub(super) const OTHERS: [&str; 46] = [
    "file", "host", "domain", "user", "server", "tool", "package", "module", "class", "function", "method",
    "field", "column", "table", "index", "database", "db", "schema", "repo", "repository", "branch", "tag",
    "project", "product", "app", "application", "service", "event", "action", "type", "company", "organization",
    "org", "team", "brand", "model", "variable", "env", "email", "mail", "ip", "mac", "wallet", "web", "memory",
    "display_file",
];
