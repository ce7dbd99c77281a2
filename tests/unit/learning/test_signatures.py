"""The same failure has the same signature at another time, place or id; another failure has another."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engram.learning.failures.signatures import MAX_FRAMES, MAX_MESSAGE, ErrorSignature, extract_error_signature
from engram.learning.failures.variable_parts import MAX_CHARACTERS, PLACEHOLDERS, cut, mask, mask_message, readable

PYTHON = """\
Traceback (most recent call last):
  File "/home/ann/shop/app/main.py", line 12, in main
    connect(url)
  File "/home/ann/shop/app/db.py", line 40, in connect
    return psycopg.connect(url)
  File "/home/ann/shop/.venv/lib/python3.11/site-packages/psycopg/connection.py", line 99, in connect
    raise last_ex
psycopg.OperationalError: connection to server at "10.0.0.7", port 5432 failed: timeout expired after 30s
"""

CHAINED = """\
Traceback (most recent call last):
  File "/srv/app/config.py", line 3, in read
    return data["name"]
KeyError: 'name'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/srv/app/cli.py", line 9, in main
    read({})
  File "/srv/app/config.py", line 5, in read
    raise ConfigError("no name in /etc/shop/shop.toml")
app.config.ConfigError: no name in /etc/shop/shop.toml
"""

JAVASCRIPT = """\
/srv/web/src/cart.js:14
    return items.map(price)
                 ^

TypeError: Cannot read properties of undefined (reading 'map')
    at total (/srv/web/src/cart.js:14:18)
    at async Object.handler [as run] (file:///srv/web/src/routes/checkout.js:7:3)
    at Layer.handle (/srv/web/node_modules/express/lib/router/layer.js:95:5)
    at process.processTicksAndRejections (node:internal/process/task_queues:95:5)
"""

JAVA = """\
Exception in thread "main" java.lang.RuntimeException: could not start
\tat com.acme.shop.Main.main(Main.java:10)
Caused by: java.net.ConnectException: Connection refused: db-7.acme.internal:5432
\tat java.base/sun.nio.ch.Net.connect0(Native Method)
\tat com.acme.shop.Db.open(Db.java:55)
\tat com.acme.shop.Main.main(Main.java:8)
\t... 1 more
"""

GO = """\
panic: runtime error: index out of range [5] with length 3

goroutine 1 [running]:
main.pick(...)
\t/home/ann/shop/pick.go:9
main.main()
\t/home/ann/shop/main.go:14 +0x1d
exit status 2
"""

RUST = """\
thread 'main' panicked at src/stock.rs:17:10:
called `Option::unwrap()` on a `None` value
stack backtrace:
   0: rust_begin_unwind
             at /rustc/9fc6b43126469e3858e2fe86cafb4f0fd5068869/library/std/src/panicking.rs:665:5
   1: core::panicking::panic_fmt
   2: shop::stock::level
             at ./src/stock.rs:17:10
   3: shop::main
             at ./src/main.rs:4:5
"""


def of(text: str) -> ErrorSignature:
    return extract_error_signature(text)


def test_a_python_traceback_tells_the_class_the_masked_message_and_the_users_frames() -> None:
    found = of(PYTHON)
    assert (found.format, found.kind) == ("python", "OperationalError")
    assert found.message == "connection to server at <str>, port <num> failed: timeout expired after <num>s"
    assert found.frames == ("app/db.py:connect", "app/main.py:main")
    assert found.text == f"OperationalError: {found.message}"


def test_the_last_exception_of_a_chain_is_the_one_that_was_seen() -> None:
    found = of(CHAINED)
    assert (found.kind, found.message) == ("ConfigError", "no name in <path>")
    assert found.frames == ("app/config.py:read", "app/cli.py:main")


def test_a_raised_exception_has_the_same_key_as_its_one_line() -> None:
    try:
        int("seven")
    except ValueError as error:
        raised = extract_error_signature(error)
    assert (raised.format, raised.kind) == ("python", "ValueError")
    assert raised.frames[0].startswith("learning/test_signatures.py:test_a_raised")
    assert raised.key == of("ValueError: invalid literal for int() with base 10: 'eight'").key


def test_a_message_of_several_lines_is_read_to_its_end() -> None:
    message = "no channel named general\n\n  and more\nwas found in the list"
    error = ValueError(message)
    error.add_note("seen on Monday")
    assert extract_error_signature(error).message == "no channel named general … was found in the list"
    assert extract_error_signature(error).key == of(f"ValueError: {message}").key


def test_an_exception_that_was_never_raised_or_cannot_be_printed_has_a_signature() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("mute")

    assert extract_error_signature(KeyError("id")).kind == "KeyError"
    assert extract_error_signature(Mute()).kind == "Mute"
    assert extract_error_signature(KeyboardInterrupt()).text == "KeyboardInterrupt"
    with pytest.raises(SyntaxError) as broken:
        compile("(", "shop.py", "exec")
    assert extract_error_signature(broken.value).text == "SyntaxError: <str> was never closed"


def test_a_group_of_exceptions_tells_what_the_group_says() -> None:
    try:
        raise ExceptionGroup("two failed", [ValueError("a 1"), TypeError("b 2")])
    except ExceptionGroup as error:
        found = extract_error_signature(error)
    assert (found.format, found.kind, found.message) == (
        "python",
        "ExceptionGroup",
        "two failed (<num> sub-exceptions)",
    )


def test_library_frames_are_told_if_there_are_no_others() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/usr/lib/python3.11/json/__init__.py", line 346, in loads\n'
        '  File "/usr/lib/python3.11/json/decoder.py", line 355, in raw_decode\n'
        "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)\n"
    )
    found = of(text)
    assert found.frames == ("json/decoder.py:raw_decode", "json/__init__.py:loads")
    assert found.message == "Expecting value: line <num> column <num> (char <num>)"


def test_javascript() -> None:
    found = of(JAVASCRIPT)
    assert (found.format, found.kind) == ("javascript", "TypeError")
    assert found.message == "Cannot read properties of undefined (reading <str>)"
    assert found.frames == ("src/cart.js:total", "routes/checkout.js:Object.handler")


def test_javascript_of_firefox() -> None:
    found = of(
        "TypeError: x is undefined\nload@https://shop.example.com/static/app.js:10:5\n@https://shop.example.com/a.js:2:1\n"
    )
    assert (found.format, found.kind) == ("javascript", "TypeError")
    assert found.frames[0] == "static/app.js:load"


def test_java_tells_the_innermost_cause() -> None:
    found = of(JAVA)
    assert (found.format, found.kind) == ("java", "ConnectException")
    assert found.message == "Connection refused: <host>:<num>"
    assert found.frames == ("com.acme.shop.Db.open", "com.acme.shop.Main.main")


def test_go() -> None:
    found = of(GO)
    assert (found.format, found.kind) == ("go", "panic")
    assert found.message == "runtime error: index out of range [<num>] with length <num>"
    assert found.frames == ("shop/pick.go:pick", "shop/main.go:main")


def test_rust() -> None:
    found = of(RUST)
    assert (found.format, found.kind) == ("rust", "panic")
    assert found.message == "called <str> on a <str> value"
    assert found.frames == ("src/stock.rs:shop::stock::level", "src/main.rs:shop::main")


def test_rust_before_the_message_had_its_own_line() -> None:
    found = of("thread 'main' panicked at 'no stock for 12', src/main.rs:4:5")
    assert (found.format, found.message, found.frames) == ("rust", "no stock for <num>", ("src/main.rs",))


@pytest.mark.parametrize(
    ("text", "kind", "message", "frame"),
    [
        (
            "src/a.c:10:5: error: use of undeclared identifier 'x'",
            "error",
            "use of undeclared identifier <str>",
            "src/a.c",
        ),
        ("src/a.ts(3,5): error TS2322: Type 'string' is not assignable to type 'number'.", "TS2322", None, "src/a.ts"),
        ("src/a.ts:3:5 - error TS2304: Cannot find name 'foo'.", "TS2304", "Cannot find name <str>.", "src/a.ts"),
        ("app/db.py:3: error: Name 'x' is not defined  [name-defined]", "name-defined", None, "app/db.py"),
        ("Foo.java:10: error: cannot find symbol", "error", "cannot find symbol", "Foo.java"),
        ("./cmd/main.go:10:2: undefined: fetch", "error", "undefined: fetch", "cmd/main.go"),
        ("error[E0382]: borrow of moved value: `cart`\n --> src/main.rs:5:20", "E0382", None, "src/main.rs"),
        ("app/db.py:3:80: E501 Line too long (81 > 80)", "E501", None, "app/db.py"),
        ("/tmp/a.o: in function `main': undefined reference to `draw'", "linker", "undefined reference to <str>", None),
    ],
)
def test_compilers(text: str, kind: str, message: str | None, frame: str | None) -> None:
    found = of(text)
    assert (found.format, found.kind) == ("compiler", kind)
    assert message is None or found.message == message
    assert found.frames == ((frame,) if frame else ())


def test_pytest_tells_what_failed_not_how_the_values_were() -> None:
    text = """\
tests/test_cart.py:12: in test_total
    assert total(cart) == 7
E   AssertionError: total was 8, not 7
=========== short test summary info ===========
FAILED tests/test_cart.py::test_total[3-a] - AssertionError: total was 8, not 7
"""
    found = of(text)
    assert (found.format, found.kind, found.message) == ("test", "AssertionError", "total was <num>, not <num>")
    assert found.frames[0].startswith("tests/test_cart.py:test_total")
    assert found.key == of("FAILED tests/test_cart.py::test_total - AssertionError: total was 9, not 7").key


@pytest.mark.parametrize(
    "text",
    [
        "--- FAIL: TestTotal (0.00s)\n    cart_test.go:12: total = 8, want 7\nFAIL",
        "test stock::tests::level ... FAILED",
        "  ● cart › adds up\n\n    expect(received).toBe(expected)\n\n    Expected: 7\n    Received: 8",
        "not ok 3 - cart adds up",
    ],
)
def test_other_test_runners(text: str) -> None:
    found = of(text)
    assert found.format == "test"
    assert found.kind
    assert found.message


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("HTTP 503 Service Unavailable", "HTTP 503", "Service Unavailable"),
        ("HTTP/1.1 404 Not Found", "HTTP 404", "Not Found"),
        (
            "404 Client Error: Not Found for url: https://api.example.com/v1/items/9",
            "HTTP 404",
            "Not Found for url: <url>",
        ),
        ("Request failed with status code 500", "HTTP 500", "Request failed with"),
        ("upstream said status: 502", "HTTP 502", "upstream said"),
        ('{"status": 422, "message": "name of item 7 is too long"}', "HTTP 422", "name of item <num> is too long"),
        (
            '{"error": {"code": "rate_limit_exceeded", "message": "retry after 20s"}}',
            "rate_limit_exceeded",
            "retry after <num>s",
        ),
    ],
)
def test_http(text: str, kind: str, message: str | None) -> None:
    found = of(text)
    assert (found.format, found.kind) == ("http", kind)
    assert message is None or found.message == message


def test_an_exception_that_tells_a_status_has_the_key_of_the_answer() -> None:
    raised = of(
        "Traceback (most recent call last):\n"
        '  File "/srv/app/api.py", line 3, in fetch\n'
        "requests.exceptions.HTTPError: 404 Client Error: Not Found for url: https://api.example.com/v1/items/9\n"
    )
    assert (raised.format, raised.kind, raised.frames) == ("python", "HTTP 404", ("app/api.py:fetch",))
    assert raised.key == of("HTTPError: 404 Client Error: Not Found for url: https://example.org/x").key
    assert of("AxiosError: Request failed with status code 500").kind == "HTTP 500"
    assert of("ValueError: no rows with status: 500").kind == "ValueError"


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("bash: line 3: foo: command not found\nexit code 127", "", "foo: command not found"),
        ("sh: 1: foo: not found", "", "foo: not found"),
        (
            "ls: cannot access '/data/x': No such file or directory",
            "",
            "ls: cannot access <str>: No such file or directory",
        ),
        ("curl: (6) Could not resolve host: api.example.com", "curl: (6)", "Could not resolve host: <host>"),
        ("fatal: not a git repository (or any of the parent directories): .git", "fatal", None),
        ("npm ERR! code E404\nnpm ERR! 404 Not Found - GET https://registry.example.org/x", "E404", None),
        ("make: *** [Makefile:12: all] Error 2", "", None),
        ("Segmentation fault (core dumped)", "", "Segmentation fault (core dumped)"),
        ("Step build failed\nProcess exited with code 3", "exit 3", "Step build failed"),
    ],
)
def test_the_shell(text: str, kind: str, message: str | None) -> None:
    found = of(text)
    assert (found.format, found.kind) == ("shell", kind)
    assert message is None or found.message == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ValueError: the table is empty (exit code 2)", "the table is empty"),
        ("curl: (7) could not connect to the proxy; exit code 7", "could not connect to the proxy"),
        ("rc=1: could not resolve the name", "could not resolve the name"),
        ("helm timed out (exit status 1) waiting for the pods", "helm timed out waiting for the pods"),
        ("helm exited with code 1: timed out", "timed out"),
        ("Command failed with exit code 1 - no pods", "no pods"),
        ("job 7 (exit 1) was never restarted", "was never restarted"),
        ("数据库连接失败; exit code 1", "数据库连接失败"),
        ("RuntimeError: the build failed with exit code 1\nmissing script: lint", "missing script: lint"),
        ("exit code 0 but no output", "exit code <num> but no output"),
        ("process exited with code 137 because of memory", "process exited with code <num> because of memory"),
    ],
)
def test_an_exit_status_beside_a_message_is_no_part_of_it(text: str, message: str) -> None:
    assert of(text).message == message


@pytest.mark.parametrize(
    "told",
    [
        "{}; exit code 1",
        "{} (exit status 1)",
        "{} [exit 1]",
        "{}, command terminated with exit code 1",
        "{}. Process exited with code 1",
        "{}\nProcess exited with code 1.",
        "{}\nexit code: 137",
        "{} (helm exited with code 1)",
        "Command failed with exit code 1: {}",
        "The command 'helm upgrade' failed with exit code 1: {}",
        "Process exited with code 1. {}",
        "exit 1: {}",
    ],
)
def test_a_message_is_the_same_with_and_without_an_exit_status(told: str) -> None:
    message = "helm: timed out waiting for the condition"
    found, plain = of(told.format(message)), of(message)
    assert (found.text, found.key) == (plain.text, plain.key)


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("exit status 1", "exit 1", ""),
        ("Error: Process completed with exit code 1.", "exit 1", ""),
        ("process exited with code 137", "exit 137", ""),
        ("RuntimeError: process exited with code 3", "exit 3", ""),
        ("npm ERR! Exit status 1", "exit 1", ""),
        ('error: script "build" exited with code 2', "exit 2", "script build exited"),
        ("linter exited with code 2", "exit 2", "linter exited"),
        ("The process '/usr/bin/git' failed with exit code 128", "exit 128", "The process git exited"),
        (
            "subprocess.CalledProcessError: Command '['git', 'push']' returned non-zero exit status 128.",
            "exit 128",
            "Command git push exited",
        ),
        (
            "Command 'npm run build --prefix /srv/app' returned non-zero exit status 1.",
            "exit 1",
            "Command npm run build --prefix <path> exited",
        ),
        (
            'ERROR: process "/bin/sh -c npm ci" did not complete successfully: exit code: 1',
            "exit 1",
            "process sh -c npm ci exited",
        ),
    ],
)
def test_an_exit_status_alone_is_told_with_the_command_that_had_it(text: str, kind: str, message: str) -> None:
    found = of(text)
    assert (found.kind, found.message) == (kind, message)
    assert of(found.text).key == found.key


def test_a_log_line_loses_its_time_and_level() -> None:
    found = of("2024-05-01 10:00:00,123 ERROR [worker-3] connect to db.example.com timed out after 30s")
    assert (found.format, found.kind) == ("log", "")
    assert found.message.endswith("connect to <host> timed out after <num>s")
    assert found.key == of("2025-01-02 03:04:05,999 ERROR [worker-8] connect to eu.example.org timed out after 9s").key


def test_the_line_that_speaks_of_trouble_is_the_telling_one() -> None:
    assert of("starting\nall well\ncould not bind to port 80\nbye").message == "could not bind to port <num>"


def test_a_refused_model_tells_fields_and_reasons_not_values() -> None:
    def refused(value: str) -> str:
        return (
            f"ValidationError: 1 validation error for Order\nitems.3\n  Input should be a valid integer "
            f"[type=int_parsing, input_value='{value}', input_type=str]\n    For further information visit https://x.dev/v/y"
        )

    found = of(refused("a b"))
    assert found.kind == "ValidationError"
    assert found.message.startswith("validation error for Order: items: Input should be a valid integer")
    assert found.key == of(refused("[1, 2]").replace("items.3", "items.0")).key
    assert found.key != of(refused("a").replace("items", "price")).key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ValueError: no user 'ann' in team 7", "ValueError: no user 'bob' in team 12"),
        ("OSError: cannot open /tmp/a/b.txt", "OSError: cannot open /var/lib/c.txt"),
        ("requests.exceptions.ConnectionError: host 10.0.0.1", "ConnectionError: host 10.9.9.9"),
        ("KeyError: '0f3c9a9e-8f0b-4c8e-9f43-3f1a8e1b2c3d'", "KeyError: 'id'"),
        ("TypeError: pay() missing 1 required positional argument: 'sum'",
         "TypeError: ship() missing 2 required positional arguments: 'to' and 'by'"),
        ("Error: deadline 2024-01-01T10:00:00Z passed", "Error: deadline 2025-12-31T23:59:59Z passed"),
    ],
)  # fmt: skip
def test_the_same_failure_with_other_values_has_the_same_key(one: str, other: str) -> None:
    assert of(one).key == of(other).key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ValueError: no user 'ann'", "KeyError: no user 'ann'"),
        ("ValueError: user not found", "ValueError: channel not found"),
        ("HTTP 503 Service Unavailable", "HTTP 404 Not Found"),
        ("Permission denied", "Connection refused"),
    ],
)
def test_another_failure_has_another_key(one: str, other: str) -> None:
    assert of(one).key != of(other).key


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("took 12 ms at 10:22:33", "took <num> ms at <time>"),
        ("0x7fff5fbff8a0 and deadbeef12 and 6ba7b810-9dad-11d1-80b4-00c04fd430c8", "<id> and <id> and <id>"),
        ("from 10.0.0.1:80 and fe80:0:0:0:1:2:3:4 and ::1", "from <host>:<num> and <id> and <id>"),
        ("see https://example.com/a?b=1 or mail ann@example.com", "see <url> or mail <email>"),
        ("C:\\Users\\ann\\a.txt and ~/x and ./y/z.py and src/app/main.py", "<path> and <path> and <path> and <path>"),
        ("on Wed Jul 27 10:59:53 2005 and 2024-02-03 and 3/4/2024", "on <time> and <time> and <time>"),
        ("utf-8 int32 sha256 HTTP/1.1 stay", "utf-8 int32 sha256 HTTP/1.1 stay"),
        ("java.lang.String and std::vec and I/O stay", "java.lang.String and std::vec and I/O stay"),
        ("value is null, retry is True", "value is <val>, retry is True"),
        ("card ****1234", "card <val>"),
        ("", ""),
    ],
)
def test_masks(text: str, masked: str) -> None:
    assert mask(text) == masked


def test_what_is_shown_of_a_message_has_no_masks() -> None:
    assert readable("took <num> ms at <time>") == "took … ms at …"
    assert of("could not bind to port 80").original == "could not bind to port 80"
    assert "<" not in of("ValidationError: 1 validation error for Order\nitems.3\n  'x' is bad [type=int, x]").original


def test_a_list_of_values_is_one_value() -> None:
    assert mask_message("missing 'a', 'b', and 'c'") == mask_message("missing 'x'") == "missing <str>"


TEXT = st.text(max_size=300) | st.text(alphabet="a1:./-_ '\"`<>()[]{}@#=\\\n*~%,Z", max_size=200)


@given(TEXT)
def test_masking_twice_changes_nothing(text: str) -> None:
    once = mask(text)
    assert mask(once) == once
    message = mask_message(text)
    assert mask_message(message) == message


@given(TEXT)
def test_any_text_has_a_signature_and_the_same_one_every_time(text: str) -> None:
    found = of(text)
    assert found == of(text)
    assert len(found.key) == 32
    assert len(found.frames) <= MAX_FRAMES
    assert len(found.message) <= MAX_MESSAGE


NUMBERS = st.integers(0, 10**9)
IDS = st.uuids().map(str)
PATHS = st.lists(st.text("abcxyz", min_size=1, max_size=6), min_size=2, max_size=5).map(lambda p: "/" + "/".join(p))


@given(NUMBERS, IDS, PATHS, NUMBERS, IDS, PATHS)
@settings(max_examples=50)
def test_numbers_ids_and_paths_never_change_the_key(a: int, b: str, c: str, d: int, e: str, f: str) -> None:
    def failure(number: int, id: str, path: str) -> str:
        return f"OSError: job {id} could not write block {number} to {path}: disk full"

    assert of(failure(a, b, c)).key == of(failure(d, e, f)).key


@given(TEXT)
def test_the_text_of_a_named_error_has_its_own_key(text: str) -> None:
    found = of(f"ValueError: bad {text.splitlines()[0] if text.splitlines() else ''} input")
    if found.kind == "ValueError":
        assert of(found.text).key == found.key


@given(st.text(max_size=50), st.integers(1, 60))
def test_a_cut_text_keeps_its_ends_within_the_limit(text: str, limit: int) -> None:
    assert len(cut(text, max(limit, 8))) <= max(limit, 8)


@pytest.mark.parametrize(
    "unit",
    ["a", "ab:", "1:", "/a", "a@", "'a ", '"', "<num>", "Mon ", "2017-", "\n    at ", "\n", "File \"", "a.b.", "(",
     "***a", "Error: ", "HTTP ", "\\\\a", "0x", "E   ", "Caused by: a.B\n", "exit 1, ",
    "a, with exit code 3\n", "Traceback (most recent call last):\n"],
)  # fmt: skip
def test_a_megabyte_of_anything_is_read_in_bounded_time(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    start = time.thread_time()
    of(text)
    assert time.thread_time() - start < 5
    assert len(mask(text)) <= 4 * MAX_CHARACTERS


def test_placeholders_are_never_masked_again() -> None:
    assert all(mask(name) == name for name in PLACEHOLDERS)
