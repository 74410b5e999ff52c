"""Which server and token are used, of all the places that may name one."""

from pathlib import Path

import pytest

from fairlead import discovery
from fairlead.errors import NoServer, NotConfigured


def make(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path)}


@pytest.fixture
def local(tmp_path: Path) -> Path:
    folder = tmp_path / ".local" / "share" / "fairlead"
    return make(folder, address="http://127.0.0.1:8080\n", token="fl_local\n")


def config(tmp_path: Path, text: str) -> Path:
    folder = make(tmp_path / ".config" / "fairlead")
    (folder / "config.yaml").write_text(text)
    return folder


def test_without_a_server_the_error_says_what_to_do(environment: dict[str, str]) -> None:
    with pytest.raises(NoServer, match="fairlead up"):
        discovery.find_server(environment)


def test_the_default_data_folder_is_found(environment: dict[str, str], local: Path) -> None:
    found = discovery.find_server(environment)
    assert (found.url, found.token, found.is_local) == ("http://127.0.0.1:8080", "fl_local", True)


def test_the_configuration_overrides_the_default_data_folder(
    environment: dict[str, str], local: Path, tmp_path: Path
) -> None:
    config(tmp_path, "{server: 'https://there/', token: t}")
    found = discovery.find_server(environment)
    assert (found.url, found.token, found.is_local) == ("https://there", "t", False)


def test_a_data_folder_named_by_the_environment_overrides_the_configuration(
    environment: dict[str, str], tmp_path: Path
) -> None:
    config(tmp_path, "{server: 'https://there', token: t}")
    folder = make(tmp_path / "data", address="http://127.0.0.1:9", token="fl_data")
    assert discovery.find_server({**environment, "FAIRLEAD_DATA": str(folder)}).token == "fl_data"


def test_the_current_context_is_used(environment: dict[str, str], tmp_path: Path) -> None:
    config(tmp_path, "{current: b, contexts: {a: {server: 'http://a'}, b: {server: 'http://b'}}}")
    assert discovery.find_server(environment).url == "http://b"


def test_the_environment_overrides_everything(
    environment: dict[str, str], local: Path, tmp_path: Path
) -> None:
    config(tmp_path, "{server: 'https://there', token: t}")
    named = {**environment, "FAIRLEAD_SERVER": "http://x:1", "FAIRLEAD_TOKEN": "fl_x"}
    found = discovery.find_server(named)
    assert (found.url, found.token) == ("http://x:1", "fl_x")


@pytest.mark.parametrize(
    "server",
    ["http://[::1", "http://h:abc", "http://h:99999", "http://a b", "http://a\nb", "ftp://h", "h"],
)
def test_an_invalid_address_is_named(environment: dict[str, str], server: str) -> None:
    with pytest.raises(NotConfigured, match=r"FAIRLEAD_SERVER: .* is not a valid http"):
        discovery.find_server({**environment, "FAIRLEAD_SERVER": server})


@pytest.mark.parametrize("token", ["fl_a\nb", "t\u00f6k", "fl_a b"])
def test_a_token_that_cannot_be_sent_is_refused_and_not_repeated(
    environment: dict[str, str], token: str
) -> None:
    with pytest.raises(NotConfigured) as refused:
        discovery.find_server(
            {**environment, "FAIRLEAD_SERVER": "http://x:1", "FAIRLEAD_TOKEN": token}
        )
    assert token not in str(refused.value)
    pasted = {"FAIRLEAD_SERVER": "http://x:1", "FAIRLEAD_TOKEN": "fl_a\r\n"}
    assert discovery.find_server({**environment, **pasted}).token == "fl_a"


def test_a_token_is_not_sent_to_a_server_it_was_not_found_for(
    environment: dict[str, str], local: Path
) -> None:
    assert discovery.find_server({**environment, "FAIRLEAD_SERVER": "http://evil"}).token is None
    same = {**environment, "FAIRLEAD_SERVER": "http://127.0.0.1:8080/"}
    assert discovery.find_server(same).token == "fl_local"


def test_a_context_without_a_token_uses_the_token_of_the_data_folder_of_its_server(
    environment: dict[str, str], local: Path, tmp_path: Path
) -> None:
    config(
        tmp_path,
        "{current: a, contexts: {a: {server: 'http://127.0.0.1:8080'}, b: {server: 'http://b'}}}",
    )
    assert discovery.find_server(environment).token == "fl_local"
    assert discovery.find_server(environment, context="a").token == "fl_local"
    assert discovery.find_server(environment, context="b").token is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is not valid"),
        ("{sever: x}", "sever"),
        ("{server: 'ftp://x'}", "not a valid http"),
        ("{current: a}", "no context is called 'a'"),
    ],
)
def test_an_invalid_configuration_is_refused_with_the_reason(
    environment: dict[str, str], tmp_path: Path, text: str, says: str
) -> None:
    config(tmp_path, text)
    with pytest.raises(NotConfigured, match=says):
        discovery.find_server(environment)
