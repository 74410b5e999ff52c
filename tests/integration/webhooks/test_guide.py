"""The example of docs/webhooks.md verifies what is delivered."""

import re
from typing import Any

import pytest
from standardwebhooks import WebhookVerificationError

from tests.conftest import ROOT
from tests.integration.webhooks.receiver import receiving
from tests.integration.webhooks.webhook_harness import delivering


async def test_the_example_of_the_guide_verifies_a_delivery(
    fresh_database: str, valkey_url: str
) -> None:
    text = (ROOT / "docs" / "webhooks.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (example,) = [block for block in blocks if "standardwebhooks" in block]
    names: dict[str, Any] = {}
    exec(compile(example, "docs/webhooks.md", "exec"), names)
    async with receiving() as receiver, delivering(fresh_database, valkey_url) as harness:
        secret = (await harness.create(receiver.url))["secret"]
        await harness.post("/webhooks/hook/test")
        (received,) = receiver.received
        message = names["handle_request"](secret, received.headers, received.body)
        assert message["type"] == "test"
        with pytest.raises(WebhookVerificationError):
            names["handle_request"](secret, received.headers, received.body + b" ")
