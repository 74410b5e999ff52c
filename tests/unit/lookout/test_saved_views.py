"""What a request to save a view has to be."""

import pytest

from fairlead_lookout.domain.saved_views import SavedViewRequest, check_request, find_page
from fairlead_lookout.http.pages.jobs import job_list_pages


def find_errors(**fields: str) -> dict[str, str]:
    given = SavedViewRequest(**{"name": "n", "address": "/jobs", **fields})  # type: ignore[arg-type]
    return {error.pointer: error.detail for error in check_request(given, [])}


@pytest.mark.parametrize(
    "address",
    [
        "/jobs",
        "/jobs?state=FAILED&label.team=a%20b&groupBy=queue",
        "/jobs?annotation.x=&q=%C3%A9",
        "/jobs/filter?state=FAILED&submittedWithin=24h",
        "/",
        "/?queue=q&active=true",
        "/queues?sort=-waiting",
        "/clusters/a%20b?resource=memory&sort=-use&q=n1",
        "/clusters/filter",
        "/pools/default?sort=queue",
        "/preemptions?queue=q&from=2026-01-01T00:00&to=2026-01-02T00:00",
        "/preemptions/filter?queue=q&fromWithin=24h",
        "/fairness?pool=default&period=7d&sort=lost",
    ],
)
def test_addresses_of_pages_with_filters_are_valid(address: str) -> None:
    assert find_errors(address=address) == {}


@pytest.mark.parametrize(
    "address",
    [
        "",
        "/tokens",
        "/filter",
        "/clusters/",
        "/clusters/..",
        "/clusters/a/nodes/b",
        "/clusters?sort=-use&resource=cpu",
        "/queues?state=FAILED",
        "/fairness/filter?period=7d",
        "/preemptions?fromWithin=24h",
        "jobs?state=FAILED",
        "//evil.example.org/jobs",
        "https://evil.example.org/jobs",
        "javascript:alert(1)",
        "/jobs/../tokens",
        "/jobs#x",
        "/jobs?cursor=abc",
        "/jobs?unknown=1",
        "/jobs?submittedWithin=24h",
        "/jobs/filter?cursor=abc",
        "/jobs?q=a b",
        "/jobs?q=\n",
        "/jobs?q=é",
        "/jobs?" + "&".join(f"label.l{number}=x" for number in range(101)),
        "//[/jobs",
    ],
)
def test_other_addresses_are_refused(address: str) -> None:
    assert list(find_errors(address=address)) == ["/address"]


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "\u202e"])
def test_names_that_cannot_be_read_are_refused(name: str) -> None:
    assert list(find_errors(name=name)) == ["/name"]


def test_views_have_the_parameters_of_the_page_of_jobs() -> None:
    page = find_page("/jobs")
    assert page is not None
    assert set(job_list_pages.TITLES) | {"groupBy"} == page.parameters
