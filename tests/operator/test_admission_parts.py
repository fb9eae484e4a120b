"""The parts of admission that need no API server: what fits a warning, certificates, who keeps which name."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from reconciler.errors import EnvironmentProblem, InvalidInput
from reconciler.model.documents import check_resource
from reconciler.model.manifest import LakeCatalog
from reconciler.operator.certificates import (
    LIFETIME,
    RENEWAL,
    Route,
    configured,
    is_fresh,
    load,
    make_identity,
    make_path,
    read_identity,
    read_path,
    secret_data,
    server_context,
)
from reconciler.operator.run import environment_catalogs
from reconciler.operator.tenancy import catalog_properties
from reconciler.operator.warnings import LINE_LENGTH, TOTAL_LENGTH, fit

NOW = datetime(2026, 11, 21, tzinfo=UTC)
NAMES = ("hook.system.svc", "127.0.0.1")


# ---------------------------------------------------------------- warnings


def test_short_warnings_pass_as_they_are_once_each() -> None:
    assert fit(["a", "  b", "", "a", "c  "]) == ("a", "  b", "c")


def test_a_long_warning_is_wrapped_and_none_of_it_lost() -> None:
    words = [f"word{number}" for number in range(100)]
    told = fit([" ".join(words)])
    assert all(len(line) <= LINE_LENGTH for line in told)
    assert " ".join(told).split() == words


def test_what_an_api_server_would_drop_is_counted_instead() -> None:
    lines = [f"line {number} {'x' * 100}" for number in range(100)]
    told = fit(lines, rest="elsewhere")
    assert told[:-1] == tuple(lines[: len(told) - 1])
    assert told[-1] == f"… and {100 - len(told) + 1} more lines: elsewhere"
    assert sum(map(len, told)) <= TOTAL_LENGTH + len(told[-1]) <= 4096


def test_no_warning_holds_a_control_character() -> None:
    # an API server drops such a warning whole
    assert fit(["a\tb\x1b[31m\u202e"]) == ("a\\tb\\x1b[31m\\u202e",)


# ---------------------------------------------------------------- certificates


def test_a_certificate_is_fresh_for_its_names_until_it_is_due() -> None:
    made = make_identity(NAMES, NOW)
    assert is_fresh(made, NAMES, NOW)
    assert is_fresh(made, NAMES[:1], NOW)
    assert not is_fresh(made, ("another.system.svc",), NOW)
    assert not is_fresh(made, NAMES, NOW + LIFETIME - RENEWAL)
    assert not is_fresh(made, NAMES, NOW - timedelta(days=1))


def test_a_certificate_with_another_key_is_not_fresh() -> None:
    one, two = make_identity(NAMES, NOW), make_identity(NAMES, NOW)
    mixed = type(one)(one.certificate, two.key, one.trust)
    assert not is_fresh(mixed, NAMES, NOW)
    assert not is_fresh(type(one)("nonsense", one.key, one.trust), NAMES, NOW)
    with pytest.raises(EnvironmentProblem, match="cannot be loaded"):
        server_context(mixed.certificate, mixed.key)


def test_a_renewed_certificate_is_trusted_beside_the_former_but_not_for_ever() -> None:
    first = make_identity(NAMES, NOW)
    second = make_identity(NAMES, NOW + timedelta(days=60), former=first)
    third = make_identity(NAMES, NOW + timedelta(days=120), former=second)
    assert second.trust == second.certificate + first.certificate
    assert third.trust == third.certificate + second.certificate
    late = make_identity(NAMES, NOW + LIFETIME * 2, former=first)
    assert late.trust == late.certificate
    context = server_context(first.certificate, first.key)
    load(context, second.certificate, second.key)
    assert isinstance(context, ssl.SSLContext)


def test_a_secret_says_again_what_was_put_into_it_and_shows_no_key() -> None:
    made = make_identity(NAMES, NOW)
    secret: Any = {"data": secret_data("/path", made)}
    assert (read_path(secret), read_identity(secret)) == ("/path", made)
    assert "PRIVATE" not in repr(made)
    others: list[Any] = [{}, {"tls.crt": "no base64"}, secret_data("/path", None)]
    assert [read_identity({"data": data}) for data in others] == [None] * 3


def test_a_path_is_long_and_one_that_a_service_may_have() -> None:
    paths = {make_path() for _ in range(100)}
    assert len(paths) == 100
    for path in paths:
        assert path[0] == "/"
        assert path[1:].isalnum()
        assert path[1:] == path[1:].lower()
        assert len(path) > 32


def test_a_configuration_is_written_only_when_it_leads_elsewhere() -> None:
    service = {"name": "hook", "namespace": "system", "port": 8443, "path": "/"}
    hook: Any = {"name": "resources.laketable.dev", "clientConfig": {"service": service}, "sideEffects": "None"}
    inside, outside = Route("", "hook", "system"), Route("https://127.0.0.1:9443", "hook", "system")
    assert inside.names == ("hook.system.svc", "hook.system.svc.cluster.local")
    assert outside.names == ("127.0.0.1",)
    first: Any = configured({"webhooks": [hook]}, inside, "/secret", "PEM")
    assert first[0]["clientConfig"] == {"service": {**service, "path": "/secret"}, "caBundle": "UEVN"}
    assert first[0]["sideEffects"] == "None"
    assert configured({"webhooks": first}, inside, "/secret", "PEM") is None
    # cert-manager's word is left alone
    assert configured({"webhooks": first}, inside, "/secret", "") is None
    moved: Any = configured({"webhooks": first}, outside, "/secret", "PEM")
    assert moved[0]["clientConfig"] == {"url": "https://127.0.0.1:9443/secret", "caBundle": "UEVN"}
    back: Any = configured({"webhooks": moved}, inside, "/secret", "PEM")
    assert back[0]["clientConfig"]["service"] == {"name": "hook", "namespace": "system", "path": "/secret"}


# ---------------------------------------------------------------- catalogs


def _lake(name: str, **spec: Any) -> LakeCatalog:
    metadata = {"name": name, "namespace": "sales"}
    data: Any = {"apiVersion": "laketable.dev/v1alpha1", "kind": "LakeCatalog", "metadata": metadata, "spec": spec}
    manifest, faults = check_resource(data)
    assert isinstance(manifest, LakeCatalog), faults
    return manifest


def test_catalogs_of_the_environment_are_found_by_name() -> None:
    found = environment_catalogs(
        {
            "PYICEBERG_CATALOG__PROD_LAKE__URI": "u",
            "pyiceberg_catalog__prod_lake__credential": "c",
            "PYICEBERG_CATALOG__X": "incomplete",
            "PYICEBERG_MAX_WORKERS": "1",
            "PATH": "/bin",
        }
    )
    assert found == ("prod-lake",)


def test_a_name_of_the_environment_is_refused_and_no_other() -> None:
    rest = {"type": "rest", "uri": "https://catalog.example"}
    with pytest.raises(InvalidInput, match="the operator's own environment"):
        catalog_properties(_lake("prod", properties=rest), {}, reserved=("prod",))
    assert catalog_properties(_lake("prod2", properties=rest), {}, reserved=("prod",)) == rest


def test_what_a_secret_may_hold_is_missed_only_once_it_is_known() -> None:
    half = _lake("lake", properties={"type": "rest"})
    assert catalog_properties(half, None) == {"type": "rest"}
    assert catalog_properties(_lake("lake"), None) == {}
    with pytest.raises(InvalidInput, match="'uri' is missing"):
        catalog_properties(half, {})
    with pytest.raises(InvalidInput, match="is one of"):
        catalog_properties(_lake("lake"), {})
