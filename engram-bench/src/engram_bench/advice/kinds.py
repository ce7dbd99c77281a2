"""Describe a kind of work: its situations, their wordings, its actions and how often each works.

The descriptions are written as short texts, so that a situation can be read at a glance:

situation(
        "printer jam",
        "printer | office | repair",                 # tool, environment, type of task
        '''
        0.92 open the back and pull the paper out     # how often it works
        0.50* switch it off and on                    # the star marks the team's habit
        0.15 press the button harder
        ''',
        '''
        printer {n} is jammed again
        no paper comes out upstairs, {name} says it makes a noise
        ''',
    )

Words in braces are replaced by values: those of `PLACES`, or of the kind's own lists.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

WORDINGS = 8
"""Least number of wordings of a situation."""
_ACTION = re.compile(r"(?P<rate>0\.\d+)(?P<habit>\*?) (?P<text>.+)")


@dataclass(frozen=True, slots=True)
class Situation:
    """A recurring kind of context, in other words each time."""

    name: str
    tool: str
    environment: str
    task_type: str
    actions: Mapping[str, float]
    """Success rate of each action."""
    habit: str
    """The action that the team takes by habit."""
    wordings: tuple[str, ...]

    @property
    def best(self) -> str:
        """The action that works most often."""
        return max(self.actions, key=lambda action: self.actions[action])


@dataclass(frozen=True, slots=True)
class Errand:
    """An occasional task unrelated to the situations, which nearly always succeeds."""

    context: str
    action: str


@dataclass(frozen=True, slots=True)
class KindOfWork:
    """A kind of work: its situations, and other things that happen beside them."""

    name: str
    situations: tuple[Situation, ...]
    notes: tuple[str, ...]
    """Memories about other topics."""
    errands: tuple[Errand, ...]
    errors: tuple[str, ...]
    """Error messages of failures."""
    places: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """This kind's own values for words in braces, such as the names of its products."""
    seen: bool = True
    """False for held-out kinds, which are not looked at while the learner is developed."""


def situation(name: str, circumstances: str, actions: str, wordings: str) -> Situation:
    """Parse the description of a situation."""
    tool, environment, task_type = (part.strip() for part in circumstances.split("|"))
    rates, habit = {}, ""
    for line in lines(actions):
        found = _ACTION.fullmatch(line)
        if found is None:
            raise ValueError(f"{line!r} is not an action such as 0.92 open the door")
        rates[found["text"]] = float(found["rate"])
        habit = found["text"] if found["habit"] else habit
    if not habit:
        raise ValueError(f"no action of {name!r} is marked as the habit")
    return Situation(name, tool, environment, task_type, rates, habit, lines(wordings))


def errands(text: str) -> tuple[Errand, ...]:
    """Parse errands: one per line, the context and the action with an arrow between."""
    pairs = (line.split(" -> ") for line in lines(text))
    return tuple(Errand(context, action) for context, action in pairs)


def lines(text: str) -> tuple[str, ...]:
    """Split a text into its non-empty lines."""
    return tuple(line.strip() for line in text.splitlines() if line.strip())
