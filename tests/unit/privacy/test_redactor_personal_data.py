"""Personal data found by checksum, shape and surrounding text, and similar text that is left alone."""

from __future__ import annotations

import random
import typing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engram.privacy import SecretRedactor, clean_json
from engram.privacy.checks import CHECKS, luhn
from engram.privacy.rules import rule_set
from engram_bench import sensitive

REDACTOR = SecretRedactor()
KEYED = SecretRedactor(key=b"an installation")


def cleaned(text: str) -> str:
    return REDACTOR.clean([text])[0].text


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("Mail bob.smith@acme.io, please.", "Mail [personal:email], please."),
        ("<ann+news@mail.acme.co.uk>", "<[personal:email]>"),
        ("jörg@müller.de schreibt", "[personal:email] schreibt"),
        ("[x](mailto:bob@acme.io)", "[x](mailto:[personal:email])"),
        ("call +41 (0)44 668 18 00 now", "call [personal:phone] now"),
        ("call +14155552671", "call [personal:phone]"),
        ("(415) 555-2671 ext. 12", "[personal:phone]"),
        ("Fax: 9498777106", "Fax: [personal:phone]"),
        ("card 4242 4242 4242 4242!", "card [personal:card]!"),
        ("371449635398431", "[personal:card]"),
        ("IBAN DE89 3704 0044 0532 0130 00 and more", "IBAN [personal:iban] and more"),
        ("to gb82west12345698765432", "to [personal:iban]"),
        ("SSN 536-22-8726", "SSN [personal:us-ssn]"),
        ("her ssn is 536228726", "her ssn is [personal:us-ssn]"),
        ("from 41.173.96.26:443", "from [personal:ip]:443"),
        ("ip=213.131.118.33 ok", "ip=[personal:ip] ok"),
        ("peer 2a00:1450:4001:81b::200e said", "peer [personal:ip] said"),
        ("NHS number 943 476 5919", "NHS number [personal:uk-nhs]"),
        ("SIN 046 454 286", "SIN [personal:ca-sin]"),
        ("Steuer-ID 86095742719", "Steuer-ID [personal:de-tax-id]"),
        ("BSN 111222333", "BSN [personal:nl-bsn]"),
        ("PESEL 44051401359", "PESEL [personal:pl-pesel]"),
        ("CPF 52998224725", "CPF [personal:br-cpf]"),
        ("Aadhaar 2341 2341 2346", "Aadhaar [personal:in-aadhaar]"),
        ("PAN ABCPE1234F", "PAN [personal:in-pan]"),
        ("TFN 123 456 782", "TFN [personal:au-tfn]"),
        ("RRN 900101-1234568", "RRN [personal:kr-rrn]"),
        ("passport no. C03005988 was lost", "passport no. [personal:national-number] was lost"),
        ("her RUT is 12.345.678-5.", "her RUT is [personal:national-number]."),
        ("fødselsnummer: 01010750160", "fødselsnummer: [personal:national-number]"),
        ("手机号：13812345678", "手机号：[personal:phone]"),
        ("telefone (11) 91234-5678", "telefone [personal:phone]"),
    ],
)
def test_personal_data_is_found_and_the_rest_stays(text: str, clean: str) -> None:
    assert cleaned(text) == clean
    assert cleaned(clean) == clean


@pytest.mark.parametrize(
    "text",
    [
        "NHS number 943 476 5918",
        "SIN 146 454 286",
        "Steuer-ID 86095742710",
        "BSN 111222334",
        "PESEL 44051401358",
        "CPF 52998224726",
        "Aadhaar 2341 2341 2347",
        "TFN 123 456 783",
        "RRN 900101-1234567",
        "bob@example.com, bob@test.example.org, bob@printer.local, bob@db.internal",
        "git@github.com:acme/repo.git and https://bob@host.io/x",
        "postgres://app@db.acme.io/prod",
        "ssh -p 2222 root@web1.acme.io",
        "rsync a bob@web1.acme.io:/srv",
        "logo@2x.png getty@tty1.service pkg@1.2.3",
        "sd_IN@devanagari.UTF-8",
        "y = x@self.weights.transpose()",
        "127.0.0.1 10.1.2.3 192.168.0.1 172.16.9.9 169.254.1.1 100.64.0.1",
        "192.0.2.1 198.51.100.7 203.0.113.9 0.0.0.0 255.255.255.0 224.0.0.251",
        "8.8.8.8 and 1.1.1.1 answer",
        "Chrome/120.0.0.0 Safari/537.36",
        "upgrade to 141.73.96.26",
        "requests==41.173.96.26",
        "section 8.2.4.44 of the specification",
        "fe80::1 ::1 2001:db8::7334 std::abs a::b 12:34:56 00:1b:44:11:3a:b7",
        "1-800-273-8255",
        "2023-10-15 10:30:00",
        "15.10.2023 - 16.10.2023",
        "3.141592653589793",
        "1763257200000000",
        "4242 4242 4242 4243",
        "0000 0000 0000 0000",
        "order 978-0-12-345678-9",
        "01 02 03 04 05 06 07",
        "-rw-r--r-- 1 root root 4096",
        "dsl-static-059.45.101.203.acme.net",
        "blk_-1608999687919862906",
        "call 1000000 times",
        "SSN 000-12-3456",
        "part 123-45-67890",
        "passport.js strategy 2.0",
        "the RUT 955 router",
        "NIF format: 9 digits",
        "passport valid until 2031-05-12",
        "phone 12 pro max",
    ],
)
def test_what_only_looks_like_personal_data_stays(text: str) -> None:
    assert REDACTOR.clean([text])[0] == (text, ())


def test_the_rules_keep_their_own_examples() -> None:
    for rule in rule_set().rules:
        rule.compile()
        rule_set().check_examples(rule, "the rules")


def test_personal_rules_are_complete() -> None:
    personal = [rule for rule in rule_set().rules if rule.kind.family == "personal"]
    assert {rule.id for rule in personal} >= {"email", "phone", "card", "iban", "ip", "us-ssn"}
    assert len({rule.id for rule in personal if rule.kind.group == "national-id"}) >= 15


@given(st.integers(min_value=0))
@settings(max_examples=100, deadline=None)
def test_a_card_without_its_check_digit_is_none(seed: int) -> None:
    number = sensitive.PERSONAL["card"][0](random.Random(seed)).replace(" ", "").replace("-", "")
    assert luhn([int(c) for c in number])
    text = f"pan {number[:-1]}{(int(number[-1]) + 1) % 10} end"
    assert not luhn([int(c) for c in text.split()[1]])
    assert "personal:card" not in REDACTOR.clean([text])[0].found


@given(st.integers(), st.sampled_from(sorted(sensitive.PERSONAL)))
@settings(max_examples=150, deadline=None)
def test_generated_personal_data_goes_whole_and_cleaning_twice_changes_nothing(seed: int, name: str) -> None:
    make, templates = sensitive.PERSONAL[name]
    rng = random.Random(seed)
    value, template = make(rng), rng.choice(list(templates))
    once = KEYED.clean([template.format(value)])[0]
    assert value not in once.text
    assert KEYED.clean([once.text])[0] == (once.text, ())


@given(st.text(alphabet="0123456789 .-()+x:@abcf/", max_size=60))
@settings(max_examples=300, deadline=None)
def test_any_run_of_digits_is_answered_and_cleaning_twice_changes_nothing(text: str) -> None:
    once = KEYED.clean([text])[0]
    assert KEYED.clean([once.text])[0] == (once.text, ())


@given(st.binary(max_size=60), st.sampled_from(sorted(CHECKS)))
@settings(max_examples=200, deadline=None)
def test_a_rejected_span_is_never_outside_the_text(text: bytes, name: str) -> None:
    for rule in rule_set().rules:
        if rule.kind.name == name:
            for start, end in rule.find(text):
                assert 0 <= start < end <= len(text)


@pytest.mark.parametrize("unit", ["4", "4 ", "1.", "0123456789", "a@", "a@b.", "+1 ", "1:", "::", "12-", "(0"])
def test_a_megabyte_of_almost_personal_data_is_answered(unit: str) -> None:
    text = (unit * (300_000 // len(unit)))[:300_000]
    assert len(REDACTOR.clean([text])) == 1


def test_json_keys_tell_and_numbers_are_looked_at() -> None:
    value: typing.Any = {
        "phone": "9472 7916",
        "mobile_number": 9498777106,
        "card": 4242424242424242,
        "ssn": "536228726",
        "id": 17,
        "count": 9498777106,
        "password": 123456,
        "max_tokens": 128000,
        "token": 4096,
        "bob@acme.io": 1.5,
    }
    assert clean_json(REDACTOR, value)[0] == {
        "phone": "[personal:phone]",
        "mobile_number": "[personal:phone]",
        "card": "[personal:card]",
        "ssn": "[personal:us-ssn]",
        "id": 17,
        "count": 9498777106,
        "password": "[secret:keyed-value]",
        "max_tokens": 128000,
        "token": 4096,
        "[personal:email]": 1.5,
    }
    once = clean_json(KEYED, value)[0]
    assert clean_json(KEYED, once) == (once, ())


def test_secrets_can_be_told_from_personal_data() -> None:
    key = sensitive.PROVIDERS["github"](random.Random(1))
    cleaned = REDACTOR.clean([f"{key} of bob@acme.io"])[0]
    assert cleaned.found == ("github-token", "personal:email")
    assert cleaned.secrets == ("github-token",)


def test_the_folder_of_rules_is_all_that_is_read() -> None:
    folder = Path(typing.cast(str, __import__("engram.privacy").privacy.__file__)).parent
    assert {path.name for path in folder.glob("*.toml")} >= {"rules.toml", "personal.toml"}
