from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from engram.errors import InvalidInput, NotAllowed
from engram.learning.prevention.check_commands import LONGEST_SECONDS, SHOWN_CHARACTERS, run_check_command


def test_nothing_runs_without_permission(tmp_path: Path) -> None:
    made = tmp_path / "made"
    with pytest.raises(NotAllowed):
        run_check_command([sys.executable, "-c", f"open({str(made)!r}, 'w')"], allowed=False)
    assert not made.exists()


@pytest.mark.process
def test_the_exit_code_says_whether_the_condition_holds() -> None:
    assert run_check_command([sys.executable, "-c", "print('fine')"], allowed=True).met
    done = run_check_command(
        [sys.executable, "-c", "import sys; print('no', file=sys.stderr); sys.exit(3)"], allowed=True
    )
    assert (done.met, done.code) == (False, 3)
    assert "no" in done.output


@pytest.mark.process
def test_arguments_never_pass_through_a_shell(tmp_path: Path) -> None:
    text = f"$HOME; touch {tmp_path / 'made'} && `id` | *"
    done = run_check_command([sys.executable, "-c", "import sys; print(sys.argv[1])", text], allowed=True)
    assert done.output.rstrip("\r\n") == text
    assert not list(tmp_path.iterdir())


@pytest.mark.process
def test_a_command_that_takes_too_long_is_stopped_with_what_it_started() -> None:
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"
    begun = time.monotonic()
    done = run_check_command([sys.executable, "-c", f"print('begun', flush=True); {child}"], allowed=True, seconds=1)
    assert (done.met, done.code) == (False, None)
    assert "1 seconds" in done.reason
    assert time.monotonic() - begun < 30


@pytest.mark.process
def test_long_output_is_cut() -> None:
    done = run_check_command([sys.executable, "-c", "print('x' * 1_000_000)"], allowed=True)
    assert len(done.output) == SHOWN_CHARACTERS + 1


@pytest.mark.process
@pytest.mark.parametrize("command", ["npm test", [], ["a\0b"], ["no-such-program-anywhere"]])
def test_what_cannot_be_started_is_a_clear_error(command: list[str]) -> None:
    with pytest.raises(InvalidInput):
        run_check_command(command, allowed=True)


@pytest.mark.parametrize("seconds", [0, -1, LONGEST_SECONDS + 1, float("nan")])
def test_the_time_limit_is_bounded(seconds: float) -> None:
    with pytest.raises(InvalidInput):
        run_check_command([sys.executable, "-V"], allowed=True, seconds=seconds)
