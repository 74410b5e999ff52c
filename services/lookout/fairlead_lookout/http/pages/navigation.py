"""The pages of the navigation: their addresses, titles, and the keys that lead to them."""

from typing import Final

import msgspec


class PageEntry(msgspec.Struct, frozen=True):
    """A page. `section`: its name in templates; `key`: the letter after `g` that opens it.

    `is_main`: in the navigation at the top of each page. The others are in its footer.
    """

    section: str
    address: str
    title: str
    key: str
    is_main: bool = True


PAGES: Final = (
    PageEntry("jobsets", "/", "Job sets", "s"),
    PageEntry("jobs", "/jobs", "Jobs", "j"),
    PageEntry("queues", "/queues", "Queues", "q"),
    PageEntry("clusters", "/clusters", "Clusters", "c"),
    PageEntry("pools", "/pools", "Pools", "p"),
    PageEntry("preemptions", "/preemptions", "Preemptions", "e"),
    PageEntry("fairness", "/fairness", "Fairness", "f"),
    PageEntry("saved-views", "/saved-views", "Saved views", "v", is_main=False),
    PageEntry("tokens", "/tokens", "Tokens", "t", is_main=False),
    PageEntry("webhooks", "/webhooks", "Webhooks", "w", is_main=False),
    PageEntry("about", "/about", "About", "a", is_main=False),
    PageEntry("find", "/find", "Find", "i", is_main=False),
)
