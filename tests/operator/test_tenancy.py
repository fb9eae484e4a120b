"""Who may do what with whose catalog, and what a LakeCatalog of a tenant may say."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.errors import InvalidInput, LakeError
from reconciler.model.documents import check_resource
from reconciler.model.manifest import LakeCatalog
from reconciler.model.manifest.catalog import Runtime
from reconciler.model.table import TableIdent
from reconciler.operator.run import forget_environment
from reconciler.operator.tenancy import AccessDenied, catalog_properties, require_access, require_connect

ORDERS = TableIdent(("sales",), "orders")


def lake(**spec: Any) -> LakeCatalog:
    metadata = {"name": "lake", "namespace": "platform"}
    data: Any = {"apiVersion": "laketable.dev/v1alpha1", "kind": "LakeCatalog", "metadata": metadata, "spec": spec}
    manifest, faults = check_resource(data)
    assert isinstance(manifest, LakeCatalog), faults
    return manifest


def grant(namespace: str, pattern: str, *verbs: str) -> dict[str, Any]:
    return {"namespaces": [namespace], "catalogNamespaces": [pattern], "verbs": list(verbs)}


@pytest.mark.parametrize(
    ("access", "namespace", "verb", "may"),
    [
        pytest.param(None, "platform", "drop", True, id="own namespace by default"),
        pytest.param(None, "sales", "read", False, id="nobody else by default"),
        pytest.param([grant("sales", "sales", "apply")], "sales", "apply", True, id="granted"),
        pytest.param([grant("sales", "sales", "apply")], "sales", "plan", True, id="a verb includes the former"),
        pytest.param([grant("sales", "sales", "apply")], "sales", "drop", False, id="but not the next"),
        pytest.param([grant("sales", "sales", "apply")], "hr", "read", False, id="to another"),
        pytest.param([grant("sales", "finance", "drop")], "sales", "read", False, id="for another catalog namespace"),
        pytest.param([grant("*", "sal*", "read")], "hr", "read", True, id="patterns"),
        pytest.param([grant("sales", "sales", "read")], "platform", "read", False, id="grants replace the default"),
        pytest.param(
            [grant("sales", "sales", "read"), grant("sales", "*", "apply")], "sales", "apply", True, id="the highest"
        ),
    ],
)
def test_access_is_what_was_granted(access: list[dict[str, Any]] | None, namespace: str, verb: str, may: bool) -> None:
    catalog = lake(properties={"type": "rest"}, **({"access": access} if access else {}))
    if may:
        require_access(catalog, namespace, ORDERS, verb)
    else:
        with pytest.raises(AccessDenied):
            require_access(catalog, namespace, ORDERS, verb)


REST = {"type": "rest", "uri": "https://catalog.example/api"}


@pytest.mark.parametrize(
    "properties",
    [
        pytest.param({"type": "sql", "uri": "sqlite:////data/catalog.db"}, id="sqlite"),
        pytest.param({"type": "sql", "uri": "postgresql://db/x"}, id="sql"),
        pytest.param({**REST, "warehouse": "file:///etc"}, id="local files"),
        pytest.param({**REST, "warehouse": "/etc"}, id="a path"),
        pytest.param({**REST, "uri": "http://127.0.0.1:8181"}, id="loopback"),
        pytest.param({**REST, "uri": "http://localhost:8181"}, id="localhost"),
        pytest.param({**REST, "uri": "http://localhost.:8181"}, id="localhost with a dot"),
        pytest.param({**REST, "uri": "http://[::1]:8181"}, id="loopback of IPv6"),
        pytest.param({**REST, "uri": "http://[::ffff:127.0.0.1]"}, id="mapped loopback"),
        pytest.param({**REST, "uri": "http://[::1"}, id="IPv6 without its end"),
        pytest.param({**REST, "warehouse": "s3://exa℀mple"}, id="letters that are none"),
        pytest.param({**REST, "uri": "http://2130706433/"}, id="loopback as a number"),
        pytest.param({**REST, "uri": "http://0x7f.1/"}, id="loopback in hex"),
        pytest.param({**REST, "uri": "http://169.254.169.254/latest"}, id="link-local metadata"),
        pytest.param({**REST, "uri": "http://metadata.google.internal/"}, id="metadata by name"),
        pytest.param({**REST, "s3.endpoint": "http://169.254.169.254"}, id="metadata as an endpoint"),
        pytest.param({**REST, "oauth2-server-uri": "http://127.0.0.1/token"}, id="loopback for tokens"),
        pytest.param({**REST, "py-io-impl": "os.system"}, id="code"),
        pytest.param({**REST, "header.Authorization": "x"}, id="any header"),
        pytest.param({**REST, "rest.auth.custom.impl": "evil"}, id="auth code"),
        pytest.param({**REST, "client.role-arn": "arn:aws:iam::1:role/other"}, id="another role by our identity"),
        pytest.param({**REST, "ssl.cabundle": "/etc/passwd"}, id="a file of ours"),
    ],
)
def test_what_a_catalog_may_not_say(properties: dict[str, str]) -> None:
    with pytest.raises(LakeError):
        catalog_properties(lake(properties={"type": "rest"}).model_copy(update={"spec": _spec(properties)}), {})


def _spec(properties: dict[str, str]) -> Any:
    return lake(properties={"type": "rest"}).spec.model_copy(update={"properties": properties})


def test_control_an_honest_catalog_is_accepted_and_its_secret_merged() -> None:
    found = catalog_properties(lake(properties={**REST, "warehouse": "s3://lake/w"}), {"credential": "id:secret"})
    assert found == {**REST, "warehouse": "s3://lake/w", "credential": "id:secret"}


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("sc://127.0.0.1:15002", id="loopback"),
        pytest.param("sc://localhost", id="localhost"),
        pytest.param("sc://169.254.169.254:80", id="link-local metadata"),
        pytest.param("sc://[::1]:15002", id="loopback of IPv6"),
        pytest.param("sc://2130706433:15002", id="loopback as a number"),
        pytest.param("sc://spark:15002/;token=hunter2", id="a token"),
        pytest.param("sc://spark:15002/;x-header=hunter2", id="any header"),
        pytest.param("sc://spark:15002;use_ssl=true", id="parameters in the host"),
        pytest.param("sc://me:hunter2@spark:15002", id="a password"),
        pytest.param("sc://spark:15002/;session_id=hunter2", id="another's session"),
        pytest.param("sc:///", id="nothing"),
    ],
)
def test_where_a_spark_connect_server_may_not_be(url: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        require_connect(Runtime(type="connect", url=url), "sales/lake", allow_local=False)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["sc://spark.example:15002", "sc://spark", "sc://spark:15002/;use_ssl=true;user_id=lake"]
)
def test_control_a_spark_connect_server_elsewhere_is_accepted(url: str) -> None:
    require_connect(Runtime(type="connect", url=url), "sales/lake", allow_local=False)


@pytest.mark.parametrize("key", ["token", "credential", "s3.secret-access-key"])
def test_a_secret_in_the_spec_is_refused_without_repeating_it(key: str) -> None:
    with pytest.raises(LakeError) as refused:
        catalog_properties(lake(properties={"type": "rest"}).model_copy(update={"spec": _spec({key: "hunter2"})}), {})
    assert "hunter2" not in str(refused.value)


def test_the_token_of_a_spark_connect_server_is_none_of_the_catalogs_properties() -> None:
    catalog = lake(properties=REST)
    assert catalog_properties(catalog, {"spark-connect-token": "hunter2", "token": "t"}) == {**REST, "token": "t"}
    with pytest.raises(LakeError, match="holds a secret"):
        catalog_properties(lake(properties={**REST, "spark-connect-token": "hunter2"}), {})


def test_a_secret_may_not_say_what_the_spec_may_not() -> None:
    with pytest.raises(InvalidInput, match="py-io-impl"):
        catalog_properties(lake(properties=REST), {"py-io-impl": "os.system"})
    with pytest.raises(InvalidInput, match="uri"):
        catalog_properties(lake(properties={"type": "rest"}), {"uri": "http://169.254.169.254"})


@pytest.mark.parametrize("keep_cloud", [False, True])
def test_a_catalog_meets_neither_our_configuration_nor_our_identity(keep_cloud: bool) -> None:
    ambient = {"AWS_ACCESS_KEY_ID": "k", "AWS_WEB_IDENTITY_TOKEN_FILE": "f", "AZURE_CLIENT_SECRET": "s"}
    environ = {"PATH": "/bin", "PYICEBERG_CATALOG__LAKE__CREDENTIAL": "c", "pyiceberg_home": "/root", **ambient}
    forget_environment(environ, keep_cloud=keep_cloud)
    assert "PATH" in environ
    assert "PYICEBERG_CATALOG__LAKE__CREDENTIAL" not in environ
    assert environ["PYICEBERG_HOME"] == "/dev/null"
    assert (ambient.keys() <= environ.keys()) is keep_cloud
    assert ("AWS_EC2_METADATA_DISABLED" in environ) is not keep_cloud
