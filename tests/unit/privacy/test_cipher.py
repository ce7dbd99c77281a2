"""Encrypted values open only with their key and in their place; master keys are found, made and refused."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.errors import ConfigError, Conflict, MissingExtra, StoreCorrupt
from engram.privacy import keys
from engram.privacy.cipher import DataKey, MasterKey, derive_key, from_text, to_text

KEY, OTHER = DataKey(bytes(32)), DataKey(bytes([1]) * 32)
MASTER = MasterKey(bytes(32))


@given(data=st.binary(max_size=200), about=st.binary(max_size=40))
def test_what_is_sealed_opens_in_its_place(data: bytes, about: bytes) -> None:
    assert KEY.unseal(KEY.seal(data, about), about) == data


@given(text=st.text(max_size=50), about=st.binary(max_size=40))
def test_what_is_masked_can_be_read_again(text: str, about: bytes) -> None:
    assert KEY.unmask(KEY.mask(text, about), about) == text


@given(data=st.binary(max_size=50), place=st.integers(0, 1000), bit=st.integers(0, 7))
def test_a_changed_bit_is_found(data: bytes, place: int, bit: int) -> None:
    sealed = bytearray(KEY.seal(data, b"here"))
    sealed[place % len(sealed)] ^= 1 << bit
    with pytest.raises(StoreCorrupt):
        KEY.unseal(bytes(sealed), b"here")


@pytest.mark.parametrize("wrong", [b"", b"short", b"\x00" * 28])
def test_what_was_never_sealed_does_not_open(wrong: bytes) -> None:
    with pytest.raises(StoreCorrupt):
        KEY.unseal(wrong, b"here")


def test_neither_another_place_nor_another_key_opens_it() -> None:
    sealed, masked = KEY.seal(b"secret", b"here"), KEY.mask("secret", b"here")
    for key, about in ((KEY, b"there"), (OTHER, b"here")):
        with pytest.raises(StoreCorrupt):
            key.unseal(sealed, about)
        with pytest.raises(StoreCorrupt):
            key.unmask(masked, about)


def test_sealing_differs_each_time_and_masking_does_not() -> None:
    assert KEY.seal(b"x", b"") != KEY.seal(b"x", b"")
    assert KEY.mask("x", b"a") == KEY.mask("x", b"a") != KEY.mask("x", b"b")
    assert KEY.mask("x", b"a") != OTHER.mask("x", b"a")


def test_a_blind_word_is_one_term_of_the_index_and_depends_on_the_key() -> None:
    assert KEY.blind("deploy") == KEY.blind("deploy") != OTHER.blind("deploy")
    assert KEY.blind("deploy").isalnum()
    assert KEY.blind("deploy").islower() or KEY.blind("deploy").isdigit()
    assert len({KEY.blind(str(n)) for n in range(10_000)}) == 10_000


def test_a_signature_needs_the_key() -> None:
    assert KEY.sign(b"row") == KEY.sign(b"row") != OTHER.sign(b"row")


def test_keys_for_different_purposes_differ() -> None:
    assert len({derive_key(bytes(32), purpose) for purpose in ("seal", "mask", "sign", "blind", "wrap")}) == 5


def test_a_wrapped_key_opens_with_its_master_key_and_its_name_only() -> None:
    wrapped = MASTER.wrap(b"k" * 32, b"alice d1")
    assert MASTER.unwrap(wrapped, b"alice d1") == b"k" * 32
    with pytest.raises(StoreCorrupt, match="changed"):
        MASTER.unwrap(wrapped, b"bob d1")
    with pytest.raises(StoreCorrupt, match="by the master key"):
        MasterKey(b"2" * 32).unwrap(wrapped, b"alice d1")
    for broken in ("", "v1", "v2.x.y", wrapped[:-1], wrapped + "A"):
        with pytest.raises(StoreCorrupt):
            MASTER.unwrap(broken, b"alice d1")


def test_a_master_key_does_not_show_itself() -> None:
    key = bytes(range(32))
    assert to_text(key) not in repr(MasterKey(key))
    assert key.hex() not in repr(MasterKey(key))


@given(st.binary(max_size=60))
def test_bytes_have_one_text(data: bytes) -> None:
    assert from_text(to_text(data)) == data


@pytest.mark.parametrize("text", ["A", "AB==", "A B", "ä", "AB"])
def test_other_texts_are_no_bytes(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        from_text(text)


# Where keys are kept -------------------------------------------------------------------------------------


def test_a_key_is_made_in_a_file_of_ones_own_and_found_again(tmp_path: Path) -> None:
    place = str(tmp_path / "keys" / "engram.key")
    assert not keys.exists(place)
    made, found = keys.make(place), keys.find("", place)
    assert found is not None
    assert found.identity == made.identity
    assert keys.exists(place)
    assert stat.S_IMODE(Path(place).stat().st_mode) == 0o600


def test_a_key_is_never_written_over(tmp_path: Path) -> None:
    place = tmp_path / "engram.key"
    keys.make(str(place))
    before = place.read_bytes()
    with pytest.raises(Conflict, match="exists"):
        keys.make(str(place))
    assert place.read_bytes() == before


@pytest.mark.skipif(os.name != "posix", reason="other systems have other rights")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o666])
def test_a_key_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    place = tmp_path / "engram.key"
    keys.make(str(place))
    place.chmod(mode)
    with pytest.raises(ConfigError, match="chmod 600"):
        keys.find("", str(place))


@pytest.mark.parametrize("text", ["", "hello", "engram-key-v1:", "engram-key-v1:AAAA", "x" * 2000, "\udcff"])
def test_what_is_no_key_is_refused_and_not_shown(tmp_path: Path, text: str) -> None:
    place = tmp_path / "engram.key"
    place.write_bytes(text.encode("utf-8", "surrogateescape"))
    place.chmod(0o600)
    with pytest.raises(ConfigError) as refused:
        keys.find("", str(place))
    assert not text or text not in str(refused.value)
    if text:
        with pytest.raises(ConfigError, match="ENGRAM_KEY"):
            keys.find(text, "")


def test_a_missing_key_file_is_an_error_and_no_key_is_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no key file"):
        keys.find("", str(tmp_path / "none.key"))
    assert keys.find("", "") is None


def test_a_key_can_be_given_as_text(tmp_path: Path) -> None:
    place = tmp_path / "engram.key"
    made = keys.make(str(place))
    for text in (place.read_text(), place.read_text().strip().removeprefix(keys.MARK)):
        found = keys.find(text, "")
        assert found is not None
        assert found.identity == made.identity


@pytest.fixture
def keyring(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], str]:
    import keyring
    from keyring.backend import KeyringBackend

    kept: dict[tuple[str, str], str] = {}

    class InMemory(KeyringBackend):
        priority = 1

        def get_password(self, service: str, username: str) -> str | None:
            return kept.get((service, username))

        def set_password(self, service: str, username: str, password: str) -> None:
            kept[service, username] = password

        def delete_password(self, service: str, username: str) -> None:
            del kept[service, username]

    monkeypatch.setattr("keyring.core._keyring_backend", InMemory())  # type: ignore[no-untyped-call]
    assert isinstance(keyring.get_keyring(), InMemory)
    return kept


def test_a_key_can_be_kept_in_the_keyring(keyring: dict[tuple[str, str], str]) -> None:
    assert not keys.exists("keyring:team")
    with pytest.raises(ConfigError, match="no keyring:team"):
        keys.find("", "keyring:team")
    made, found = keys.make("keyring:team"), keys.find("", "keyring:team")
    assert found is not None
    assert found.identity == made.identity
    assert [*keyring] == [("engram", "team")]
    with pytest.raises(Conflict, match="already"):
        keys.make("keyring:team")


@pytest.mark.process
def test_a_keyring_that_does_not_work_is_an_error() -> None:
    import keyring
    from keyring.backends.fail import Keyring

    if not isinstance(keyring.get_keyring(), Keyring):
        pytest.skip("this system has a keyring")
    for attempt in (keys.make, keys.exists, lambda place: keys.find("", place)):
        with pytest.raises(ConfigError, match="keep the key in a file"):
            attempt("keyring:team")


@pytest.mark.parametrize("package", ["cryptography", "keyring"])
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match="pip install"):
        _ = MasterKey(bytes(32)) if package == "cryptography" else keys.find("", "keyring:x")
