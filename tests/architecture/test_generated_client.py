"""The blocking client is exactly what `make client` generates from the asynchronous one."""

from tools import generate_client


def test_the_committed_client_is_the_generated_one() -> None:
    folder = generate_client.PACKAGE / generate_client.TARGET
    committed = {file.name: file.read_text() for file in folder.glob("*.py")}
    assert committed == generate_client.generated(), "run `make client` and commit what it writes"


def test_nothing_asynchronous_is_left_in_it() -> None:
    for name, text in generate_client.generated().items():
        words = text.split("\n", 1)[1].replace("fairlead.asynchronous`", "")
        assert "async" not in words.lower(), name
