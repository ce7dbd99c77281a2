"""Show an agent that fixes failing tests, survives being killed, and needs fewer attempts in the next package.

`python examples/mender.py` makes two broken packages in a temporary folder. The agent, a process of its own, tries one
edit per cycle until all tests pass; its policy is a script, no model takes part. This process is its supervisor: it
prints the agent's output, kills it at two chosen moments, starts it again, and counts what it did to the files.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import engram
from engram.model.agent import AgentCycle

EDITS = {
    "cast-result": (r"    return (.+)", r"    return int(\1)"),
    "catch-errors": (r"    return (.+)", r"    try:\n        return \1\n    except Exception:\n        return None"),
    "default-zero": (r"    return (.+)", r"    return \1 or 0"),
    "floor-division": (r" / ", " // "),
    "fresh-list": (r"(\w+)=\[\]\):", r"\1=None):\n    \1 = [] if \1 is None else \1"),
    "guard-empty": (r"/ len\((\w+)\)", r"/ max(1, len(\1))"),
    "include-end": (r"range\((\w+), (\w+)\)", r"range(\1, \2 + 1)"),
    "missing-as-zero": (r"(\w+)\[(\w+)\]", r"\1.get(\2, 0)"),
    "strict-limit": (r"<=", "<"),
}
"""The edits the agent can make to a module, by name: a pattern and its replacement."""

PACKAGES = {
    "shop": {
        "basket": "def add(item, to=[]):\n    if len(to) <= 99:\n        to.append(item)\n    return to\n",
        "hours": "def halves(first, last):\n    return [n / 2 for n in range(first, last) if first <= last]\n",
        "prices": "def bill(prices, items):\n    return sum(prices[item] / 100 for item in items)\n",
        "ratings": "def mean(stars):\n    good = [n for n in stars if 1 <= n]\n    return sum(good) / len(good)\n",
        "returns": "def share(flags):\n    return flags.count(True) / len(flags)\n",
        "stock": "def missing(stock, wanted):\n    return [name for name in wanted if stock[name] <= 0]\n",
    },
    "depot": {
        "checks": "def passed(marks):\n    return marks.count('ok') / len(marks)\n",
        "crew": "def hire(name, crew=[]):\n    if len(name) <= 50:\n        crew.append(name)\n    return crew\n",
        "loads": "def mean(tons):\n    some = [ton for ton in tons if 0 <= ton]\n    return sum(some) / len(some)\n",
        "routes": "def length(miles, stops):\n    return sum(miles[stop] / 10 for stop in stops)\n",
        "shifts": "def starts(first, last):\n    return [n / 4 for n in range(first, last) if first <= last]\n",
        "tyres": "def worn(depths, wheels):\n    return [wheel for wheel in wheels if depths[wheel] <= 2]\n",
    },
}
EXPECTED: dict[str, dict[str, object]] = {
    "basket": {"len(add('tea'))": 1, "len(add('jam'))": 1, "add('nut', ['fig'])": ["fig", "nut"]},
    "hours": {"halves(1, 3)": [0.5, 1.0, 1.5], "halves(3, 2)": []},
    "prices": {"bill({'tea': 250}, ['tea'])": 2.5, "bill({'tea': 250}, ['tea', 'jam'])": 2.5},
    "ratings": {"mean([1, 4])": 2.5, "mean([])": 0},
    "returns": {"share([True, False])": 0.5, "share([])": 0},
    "stock": {"missing({'tea': 1, 'jam': 0}, ['tea', 'jam'])": ["jam"], "missing({}, ['fig'])": ["fig"]},
    "checks": {"passed(['ok', 'no'])": 0.5, "passed([])": 0},
    "crew": {"len(hire('Ann'))": 1, "len(hire('Bob'))": 1, "hire('Eve', ['Joe'])": ["Joe", "Eve"]},
    "loads": {"mean([0, 5])": 2.5, "mean([])": 0},
    "routes": {"length({'port': 15}, ['port'])": 1.5, "length({'port': 15}, ['port', 'mill'])": 1.5},
    "shifts": {"starts(2, 4)": [0.5, 0.75, 1.0], "starts(4, 2)": []},
    "tyres": {"worn({'a': 3, 'b': 2}, ['a', 'b'])": ["b"], "worn({}, ['c'])": ["c"]},
}
"""Calls in the tests of each module, with their expected results."""
KILLS = {"proposed": 4, "made": 8}
"""The moments at which the agent is killed in its first run: after so many edits proposed, and so many made."""


def write_package(folder: Path, name: str) -> Path:
    """Write a package of broken modules, with a file of tests for each."""
    repo = folder / name
    (repo / name).mkdir(parents=True)
    (repo / name / "__init__.py").touch()
    for module, source in PACKAGES[name].items():
        tests = [
            f"    def test_{module}_{number}(self):\n        self.assertEqual({call}, {value!r})\n"
            for number, (call, value) in enumerate(EXPECTED[module].items(), 1)
        ]
        head = f"import unittest\n\nfrom {name}.{module} import *\n\n\nclass Tests(unittest.TestCase):\n"
        (repo / name / f"{module}.py").write_text(source, encoding="utf-8")
        (repo / f"test_{module}.py").write_text(head + "\n".join(tests), encoding="utf-8")
    return repo


def run_tests(repo: Path) -> dict[str, str]:
    """Return the failing tests of a repository, each with the last line of its traceback."""
    done = subprocess.run(
        [sys.executable, "-B", "-m", "unittest", "discover"], cwd=repo, capture_output=True, text=True, check=False
    )
    reports = re.findall(r"^(?:ERROR|FAIL): (\w+) .*\n-+\n((?:.+\n)+)", done.stderr, re.MULTILINE)
    errors = {test: re.findall(r"^\w+Error.*", trace, re.MULTILINE)[-1] for test, trace in reports}
    return dict(sorted(errors.items()))


def edited(source: str, edit: str) -> str:
    """Return a module after an edit."""
    return re.sub(*EDITS[edit], source)


def candidates(source: str) -> list[str]:
    """Return the edits that would change a module, in the order of their names."""
    return [edit for edit in EDITS if edited(source, edit) != source]


def cured(test: str, before: Sequence[str], after: Mapping[str, str]) -> bool:
    """Return whether a test passes now, without breaking another one."""
    return test not in after and after.keys() <= set(before)


class Mender:
    """One run of the agent in one repository. Everything needed after a kill is in its memory, not in this object."""

    def __init__(self, brain: engram.Engram, repo: Path) -> None:
        self.repo = repo
        self.agent = brain.agent("mender")
        self.mind = engram.WorkingMemory(agent=self.agent, session=repo.name)
        self.agent.workspaces.create(repo.name, repo, ignore=["__pycache__"])

    def run(self) -> None:
        """Continue where the last process stopped, and fix until no test fails."""
        self.recover()
        self.study()
        while failing := run_tests(self.repo):
            test, error = next(iter(failing.items()))
            self.mind.set("now", {"test": test, "left": len(failing)})
            self.attempt(test, error, [*failing])
        self.finish()

    def recover(self) -> None:
        """Resolve what was interrupted, and make sure that the last result was learned from."""
        state = self.agent.life.resume()
        last, interrupted = state.last_complete, state.interrupted
        if last is not None and last.proposal.workspace == self.repo.name:
            print(f"in mind: {self.mind.get('now')}; by the cycles, {last.index} was the last to be completed")
            if last.status == "failed" and interrupted is None:
                self.agent.workspaces.restore(self.repo.name, force=True)
            self.learn(last)
        elif interrupted is None:
            for before in self.agent.episodic.query(asked="mend package", outcome="success", limit=1):
                print(f"the last time: {before.input} {before.output}")
            print(f"skills: {', '.join(skill.name for skill in self.agent.procedural.skills()) or 'none'}")
        if interrupted is not None:
            changed = self.agent.workspaces.diff(self.repo.name).of("changed")
            cycle = self.agent.life.resolve(interrupted.index, "retry")
            done = f"only tests {changed[0]}, which was changed" if changed else "makes the edit, since no file changed"
            print(f"cycle {interrupted.index} ({call_of(cycle)['edit']}) was interrupted; cycle {cycle.index} {done}")
            self.carry_out(cycle, made=bool(changed))

    def study(self) -> None:
        """Learn which module each test covers, unless that is known."""
        known = {fact.subject for fact in self.agent.semantic.facts(predicate="covers")}
        covers = dict[str, str]()
        for file in sorted(self.repo.glob("test_*.py")):
            source = file.read_text(encoding="utf-8")
            (module,) = re.findall(r"from ([\w.]+) import", source)
            covers |= dict.fromkeys(re.findall(r"def (test_\w+)", source), module.replace(".", "/") + ".py")
        new = [test for test in covers if test not in known]
        for test in new:
            self.agent.semantic.learn(test, "covers", covers[test])
        print(f"facts: what {len(covers)} tests cover, {len(new)} of them new")

    def attempt(self, test: str, error: str, failing: Sequence[str]) -> None:
        """Run one cycle: choose an edit, propose it, make it, and record the result."""
        module = self.agent.semantic.facts(test, "covers")[0].object
        edit, skill, why = self.choose(test, error, self.repo / module)
        self.agent.workspaces.snapshot(self.repo.name, label=f"before {edit}")
        call = {"test": test, "module": module, "edit": edit, "skill": skill, "failing": " ".join(failing)}
        cycle = self.agent.life.propose(tool="edit", arguments=call, reasoning=error, workspace=self.repo.name)
        print(f"{test}: {error}\n  cycle {cycle.index}: {edit} ({why})")
        report("proposed")
        self.carry_out(cycle)

    def choose(self, test: str, error: str, file: Path) -> tuple[str, str, str]:
        """Return an untried edit for this test: of a skill, or the one experience suggests and does not warn of."""
        untried = sorted({*candidates(file.read_text(encoding="utf-8"))} - {*self.tried(test)})
        for match in self.agent.procedural.match(error, k=1):
            edit = self.agent.procedural.render(match.skill.name, {"module": file.name})[0].split()[1]
            if edit in untried:
                return edit, match.skill.name, f"skill {match.skill.name}"
        suggestion = self.agent.suggest(context=error, actions=untried)
        rates = {record.action: record.success_rate for record in suggestion.actions}
        warned = [edit for edit in rates if self.agent.check(action=edit, context=error).decision != "allow"]
        best = min(rates, key=lambda edit: edit in warned)
        why = suggestion.reason if best == suggestion.recommended else f"a guess, rated {rates[best]:.0%}"
        return best, "", why + (f"; warned of {', '.join(warned)}" if warned else "")

    def tried(self, test: str) -> list[str]:
        """Return the edits tried for a test: from working memory or, after a kill, from the cycles."""
        held = self.mind.get(test)
        told = [call_of(cycle) for cycle in self.cycles()] if held is None else []
        return str(held or "").split() + [call["edit"] for call in told if call["test"] == test]

    def carry_out(self, cycle: AgentCycle, *, made: bool = False) -> None:
        """Make the edit unless it was made, run the tests, and store the result before anything is undone."""
        call = call_of(cycle)
        test, file, before = call["test"], self.repo / call["module"], call["failing"].split()
        if not made:
            file.write_text(edited(file.read_text(encoding="utf-8"), call["edit"]), encoding="utf-8")
            report("made", test, call["edit"])
        after = run_tests(self.repo)
        if cured(test, before, after):
            cycle = self.agent.life.result(cycle, output={"left": len(after)}, artifacts=[call["module"]])
            print(f"  cured, {len(after)} left")
        else:
            broken = [other for other in after if other not in before]
            problem = f"it breaks {', '.join(broken)}" if broken else f"{test} still fails"
            cycle = self.agent.life.result(cycle, error=problem)
            self.agent.workspaces.restore(self.repo.name, force=True)
            print(f"  {problem}; undone")
        self.learn(cycle)

    def learn(self, cycle: AgentCycle) -> None:
        """Learn from a result; repeating it after a kill changes nothing, because every write has a key."""
        call, error, helped = call_of(cycle), cycle.proposal.reasoning, cycle.status == "done"
        test, edit, skill = call["test"], call["edit"], call["skill"]
        outcome, key = "success" if helped else "failure", f"cycle {cycle.index}"
        self.agent.record_decision(context=error, action=edit, outcome=outcome, key=f"{key}: decision")
        self.agent.learn_from_failure(error, edit, helped=helped, key=f"{key}: failure")
        if skill:
            self.agent.procedural.used(skill, outcome, context=error, key=f"{key}: skill")
        self.agent.life.record(cycle, f"{edit} {'cures' if helped else 'does not cure'} {error} in {call['module']}")
        self.mind.set(test, " ".join({*self.tried(test), edit}))
        self.mind.add_message("assistant", f"Cycle {cycle.index} tried {edit} for {test}: {outcome}.")

    def finish(self) -> None:
        """Make skills of what helped twice, remember the run as a whole, and promote the working memory."""
        solved = [pattern for pattern in self.agent.learning.failures() if pattern.known_solutions]
        kinds = Counter(pattern.kind for pattern in solved)
        for pattern in solved:
            best = pattern.known_solutions[0]
            if best.helped < 2 or kinds[pattern.kind] > 1:
                continue  # helped once, or one name for several failures: that says too little
            skill = self.agent.procedural.add(
                {
                    "name": f"mend-{pattern.kind.lower()}",
                    "description": f"Mend a module whose test ends with {pattern.kind}",
                    "triggers": [pattern.kind],
                    "parameters": {"module": {"required": True}},
                    "steps": [{"action": f"edit {best.text} {{{{ module }}}}"}],
                }
            )
            print(f"skill {skill.name}: {best.text} helped {best.helped:.0f} of {best.tried} times")
        request, answer = f"Mend the package {self.repo.name}.", f"All tests pass after {len(self.cycles())} attempts."
        self.agent.episodic.record(request, answer, user="supervisor", outcome="success", key=f"run {self.repo.name}")
        self.mind.close()

    def cycles(self) -> list[AgentCycle]:
        """Return the completed attempts in this repository."""
        return [c for c in self.agent.life.cycles(1000) if c.complete and c.proposal.workspace == self.repo.name]


def call_of(cycle: AgentCycle) -> dict[str, str]:
    """Return the tool call that a cycle proposed."""
    return {name: str(value) for name, value in cycle.proposal.arguments.items()}


def report(what: str, *details: str) -> None:
    """Report the agent's state to the supervisor, and wait for permission to continue."""
    print("@", what, *details, flush=True)
    sys.stdin.readline()


def live(db: Path, repo: Path, kills: Mapping[str, int]) -> tuple[Counter[str], int]:
    """Run the agent until it is done, killing it at some moments; return the count of each edit, and the kills."""
    edits, reached, deaths = Counter[str](), Counter[str](), 0
    command, pipe = [sys.executable, __file__, str(db), str(repo)], subprocess.PIPE
    while True:
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, encoding="utf-8") as agent:  # noqa: S603
            for line in agent.stdout or ():
                if not line.startswith("@"):
                    print(f"  {line}", end="")
                    continue
                _, what, *details = line.split()
                reached[what] += 1
                edits.update([" ".join(details)] if what == "made" else [])
                if reached[what] == kills.get(what):
                    agent.kill()
                    deaths += 1
                    print(f"  *** killed right after it {what} an edit; started again ***")
                    break
                print(file=agent.stdin, flush=True)
            else:
                if agent.wait():
                    sys.exit("the agent failed")
                return edits, deaths


def mend_without_memory(repo: Path) -> tuple[int, float]:
    """Return the attempts needed in the order of the edits' names, and on average in random order."""
    attempts, by_chance = 0, 0.0
    while failing := run_tests(repo):
        test = next(iter(failing))
        file = repo / repo.name / f"{test.split('_')[1]}.py"
        source = file.read_text(encoding="utf-8")
        by_chance += (len(candidates(source)) + 1) / 2
        for edit in candidates(source):
            attempts += 1
            file.write_text(edited(source, edit), encoding="utf-8")
            if cured(test, [*failing], run_tests(repo)):
                break
    return attempts, by_chance


def supervise(folder: Path) -> None:
    """Fix both packages with memory, the first with two kills, and both without."""
    db, attempts = folder / "mender.db", list[int]()
    for number, name in enumerate(PACKAGES, 1):
        print(f"\nRun {number}: mend the package {name}")
        edits, deaths = live(db, write_package(folder, name), KILLS if number == 1 else {})
        attempts.append(edits.total())
        print(f"  {edits.total()} attempts, {deaths} kills, {edits.total() - len(edits)} edits made twice")
    print("\nWhat is in memory")
    with engram.open(db, embedder="hashing") as brain:
        agent = brain.agent("mender")
        episodes, facts, skills = agent.episodic.query(limit=1000), agent.semantic.facts(), agent.procedural.skills()
        print(f"  working: {sum(one.session in PACKAGES for one in episodes)} turns, handed over at the end of a run")
        print(f"  episodic: {', '.join(one.input for one in reversed(episodes) if one.user == 'supervisor')}")
        print(f"  semantic: {len(facts)} facts, such as: {facts[0].text}")
        print(f"  procedural: {', '.join(f'{one.name} (used {one.attempts} times)' for one in skills)}")
    with redirect_stdout(StringIO()):
        fresh, _ = live(folder / "fresh.db", write_package(folder / "fresh", "depot"), {})
    without = [mend_without_memory(write_package(folder / "without", name)) for name in PACKAGES]
    rows: dict[str, list[float]] = {
        "first and second run": [*attempts],
        "each with an empty memory at the start": [attempts[0], fresh.total()],
        "without memory, in the order of the names": [count for count, _ in without],
        "without memory, in random order, on average": [mean for _, mean in without],
    }
    print("\nAttempts until all tests pass                    shop   depot")
    for title, counts in rows.items():
        print(f"  {title:43}" + "".join(f"{count:8}" for count in counts))


def main(arguments: Sequence[str]) -> None:
    """Run the supervisor, or with a database and a repository the agent."""
    if arguments:
        with engram.open(arguments[0], embedder="hashing") as brain:
            Mender(brain, Path(arguments[1])).run()
        return
    with tempfile.TemporaryDirectory(prefix="mender-") as folder:
        supervise(Path(folder).resolve())


if __name__ == "__main__":
    main(sys.argv[1:])
