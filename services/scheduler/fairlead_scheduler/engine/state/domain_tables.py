"""The topology of a pool as kernels share it: what gangs ask for, and where their members are
(rules T).

A *scope* is a set of members that must be near each other: all members of a gang, or those of one
role. Its number is that of the role; for a whole gang it is the number of the first role.
"""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from typing import Final, NamedTuple

from fairlead_scheduler.engine.compiler.decorators import by_address
from fairlead_scheduler.engine.snapshot import Byte, Float, Int64
from fairlead_scheduler.engine.topology import TopologyMode

REQUIRED: Final = int(TopologyMode.REQUIRED)
PREFERRED: Final = int(TopologyMode.PREFERRED)

NOBODY: Final = -2
"""Instead of a domain: no member of the scope has a run."""
NO_DOMAIN: Final = -1
"""Instead of a domain: the members of the scope have no common one."""

DOMAINS_CONSIDERED_MAX: Final = 64
"""How many domains of a level with enough free capacity in all are compared (T3)."""
DOMAINS_TRIED_MAX: Final = 16
"""In how many domains of a level the members are tried, with and without preemption (T3)."""

# The progress of the search for a domain to free, by index into `DomainTables.search`.
SCOPE: Final = 0
"""number of the scope + 1; 0 = no search is in progress"""
NEXT_AFTER: Final = 1
TRIED: Final = 2
BEST_VALUE: Final = 3
BEST_RANK: Final = 4
BEST_VICTIMS: Final = 5
LIMITED: Final = 6
SEARCH_NUMBERS: Final = 7


@by_address
class DomainTables(NamedTuple):
    """Rules T in the model of a round. H levels of the topology, widest first.

    `common` and what follows it are written by domain_choice.py; `candidates` is scratch space.
    """

    label: Int64
    """[H] rows in the tables of label values"""
    mode: Byte
    """[G] a `TopologyMode`"""
    widest: Int64
    """[G] the widest level that is permitted, -1 when the pool does not have it"""
    whole: Byte
    """[G] whether the gang is one scope, instead of each of its roles"""
    common: Int64
    """[K, H] the domain of each level that has all members of a scope that run or ran in this
    round; `NO_DOMAIN`, `NOBODY`"""
    candidates: Int64
    """ranks of the domains that are compared, -1 for one that was tried"""
    freed: Int64
    """[K] the domain that the gang at hand frees for each of its scopes; `NO_DOMAIN`"""
    search: Int64
    """[SEARCH_NUMBERS] how far the search for a domain to free has come"""
    best_lost_work: Float
    """[1] work that would be lost in the best domain so far"""
