"""Which URLs and addresses webhooks can have: attacks are refused, public ones are not."""

import pytest

from fairlead_lookout.domain.webhooks.target_addresses import (
    check_url,
    explain_refusal,
    parse_networks,
)

REFUSED = (
    "127.0.0.1",
    "127.255.1.2",
    "0.0.0.0",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "100.100.100.200",
    "169.254.169.254",
    "168.63.129.16",
    "192.0.0.192",
    "192.0.2.1",
    "198.18.0.1",
    "224.0.0.1",
    "239.1.1.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:a9fe:a9fe",
    "::127.0.0.1",
    "64:ff9b::127.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::8.8.8.8",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::1",
    "2001:0:4136:e378:8000:63bf:80ff:fffe",
    "2001:db8::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "100::1",
)
PUBLIC = ("8.8.8.8", "93.184.216.34", "2606:2800:220:1::1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8")
NETWORKS = parse_networks(["127.0.0.0/8", "fd00::/8"])


@pytest.mark.parametrize("address", REFUSED)
def test_an_address_that_is_not_public_is_refused(address: str) -> None:
    assert explain_refusal(address, ()) is not None


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_permitted(address: str) -> None:
    assert explain_refusal(address, ()) is None


def test_allowed_networks_are_permitted_in_every_notation() -> None:
    for address in ("127.0.0.1", "::ffff:127.0.0.1", "64:ff9b::127.0.0.1", "fd00::1"):
        assert explain_refusal(address, NETWORKS, encrypted=False) is None
    assert explain_refusal("10.0.0.1", NETWORKS) is not None


def test_http_is_permitted_to_allowed_networks_only() -> None:
    refusal = explain_refusal("8.8.8.8", NETWORKS, encrypted=False)
    assert refusal is not None
    assert "http" in refusal


@pytest.mark.parametrize(
    ("url", "detail"),
    [
        ("http://hooks.example.org/", "permits http:// to no network (setting webhookNetworks)"),
        ("ftp://hooks.example.org/", "must begin with https://"),
        ("file:///etc/passwd", "must begin with https://"),
        ("javascript:alert(1)", "must begin with https://"),
        ("hooks.example.org", "must begin with https://"),
        ("https://", "has no host"),
        ("https:///path", "has no host"),
        ("https://user:password@example.org/", "contains a user name or password"),
        ("https://example.org@127.0.0.1/", "contains a user name or password"),
        ("https://example.org/#part", "has a fragment"),
        ("https://example.org:0/", "has the port 0"),
        ("https://example.org:70000/", "is not a valid URL"),
        ("https://[::1/", "is not a valid URL"),
        ("https://[v1.x]/", "in brackets that is not an IPv6 address"),
        ("https://127.0.0.1/", "is not a public address"),
        ("https://[::1]/", "is not a public address"),
        ("https://[::ffff:169.254.169.254]/", "is not a public address"),
        ("https://[fe80::1%25eth0]/", "has an address with a zone"),
        ("https://169.254.169.254/latest/meta-data", "is not a public address"),
        ("https://2130706433/", "neither a name nor an address"),
        ("https://0x7f000001/", "neither a name nor an address"),
        ("https://0177.0.0.1/", "neither a name nor an address"),
        ("https://127.1/", "neither a name nor an address"),
        ("https://localhost/", "is not a public address"),
        ("https://a.localhost./", "is not a public address"),
        ("https://exa mple.org/", "characters that are not allowed"),
        ("https://example.org\\@127.0.0.1/", "characters that are not allowed"),
        ("https://example.org/\r\nX-Injected: 1", "characters that are not allowed"),
        ("https://ex\u0430mple.org/", "characters that are not allowed"),
        ("https://-a.example.org/", "not a valid name"),
        ("https://example.org/" + "a" * 2_050, "at most 2048"),
    ],
)
def test_an_invalid_url_is_refused_with_the_reason(url: str, detail: str) -> None:
    refusal = check_url(url, ())
    assert refusal is not None
    assert detail in refusal


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example.org",
        "https://hooks.example.org:8443/a/b?c=d%20e",
        "https://xn--bcher-kva.example/",
        "https://93.184.216.34/x",
        "https://[2606:2800:220:1::1]/x",
        "https://my_host.example.org/",
    ],
)
def test_a_public_https_url_is_valid(url: str) -> None:
    assert check_url(url, ()) is None


def test_http_urls_need_an_allowed_network() -> None:
    assert check_url("http://127.0.0.1:9/x", NETWORKS) is None
    assert check_url("http://localhost:9/x", NETWORKS) is None
    assert check_url("http://10.0.0.1/x", NETWORKS) is not None
