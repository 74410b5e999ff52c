"""Names of job sets with every kind of character in URLs, in pages and in links of webhooks."""

import subprocess
from html.parser import HTMLParser
from urllib.parse import quote

import msgspec

from fairlead_lookout.domain.public_events import PublicEvent
from fairlead_lookout.domain.webhooks.delivery_bodies import make_event_body
from fairlead_submit.domain.name_rules import check_job_set_name
from tests.integration.lookout.lookout_harness import LookoutHarness, running
from tests.job_set_names import JOB_SET_NAMES
from tests.unit.lookout.builders import submitted

BASE = "https://fairlead.example.org"


class _Page(HTMLParser):
    """The texts, links, elements and commands of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text = ""
        self.links: dict[str, str] = {}
        self.elements: list[str] = []
        self.commands: list[str] = []
        self._href = ""
        self._is_command = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        if tag == "a":
            self._href = dict(attrs).get("href") or ""
        self._is_command = tag == "pre"

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._is_command:
            self.commands += data.splitlines()
        if self._href:
            self.links[data.strip()] = self._href

    def handle_endtag(self, tag: str) -> None:
        self._is_command = False
        if tag == "a":
            self._href = ""


async def _open(harness: LookoutHarness, path: str) -> _Page:
    answer = await harness.client.get(path, follow_redirects=False)
    assert answer.status_code == 200, (path, answer.status_code)
    return _Page(answer.text)


async def test_every_name_leads_to_its_job_set(fresh_database: str, valkey_url: str) -> None:
    assert [name for name in JOB_SET_NAMES if check_job_set_name(name) is not None] == []
    async with running(fresh_database, valkey_url) as harness:
        after = {
            name: await harness.append_events(submitted("a", name), job_set=name)
            for name in JOB_SET_NAMES
        }
        for name in JOB_SET_NAMES:
            path = f"/jobsets/q/{quote(name, safe='')}"
            assert (await harness.read(path, after[name]))["jobSet"] == name
            (line,) = await harness.lines(f"{path}/events")
            assert line["jobSet"] == name
            found = await harness.read("/jobs", queue="q", jobSet=name)
            assert [each["jobSet"] for each in found["jobs"]] == [name]
        overview = await _open(harness, "/")
        plain = await _open(harness, overview.links[JOB_SET_NAMES[0]])
        for name in JOB_SET_NAMES:
            page = await _open(harness, overview.links[name])
            assert name in page.text
            assert [_run_in_shell(line) for line in page.commands] == [
                ["fairlead", "watch", "--", "q", name],
                ["fairlead", "get", "jobs", "--queue=q", f"--jobset={name}"],
                ["fairlead", "cancel", "--queue=q", f"--jobset={name}"],
            ]
            assert page.elements.count("script") == plain.elements.count("script")
            assert page.elements.count("img") == plain.elements.count("img")
            body = make_event_body(_event(name), "evt_1", "fairlead", BASE)
            link = msgspec.json.decode(body)["data"]["link"]
            assert name in (await _open(harness, link.removeprefix(BASE))).text


def _run_in_shell(line: str) -> list[str]:
    """The words that a command gets if somebody copies the line into a shell."""
    script = f"fairlead() {{ printf '%s\\0' fairlead \"$@\"; }}; {line}"
    done = subprocess.run(["/bin/sh", "-euc", script], stdout=subprocess.PIPE, check=True)
    return done.stdout.decode().split("\0")[:-1]


def _event(job_set: str) -> PublicEvent:
    return PublicEvent(
        id="1-1-0", type="finished", time="t", position="p", queue="q", job_set=job_set
    )
