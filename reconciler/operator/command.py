"""`laketable operator run`: start the operator, in a pod or beside a cluster."""

from __future__ import annotations

import asyncio
import gc

import click
import msgspec

from reconciler.errors import EnvironmentProblem, ExitCode


@click.group("operator")
def command() -> None:
    """Keep the tables of a Kubernetes cluster equal to its LakeTables."""


@command.command("run")
@click.option(
    "--namespace",
    "own",
    envvar="LAKETABLE_NAMESPACE",
    help="The operator's own namespace; its LakePolicies hold everywhere.",
)
@click.option("--watch", "namespaces", multiple=True, help="Watch only this namespace (repeatable); by default all.")
@click.option(
    "--cluster",
    envvar="LAKETABLE_CLUSTER",
    default="",
    help="The cluster's name in laketable.owner; by default from kube-system's uid.",
)
@click.option("--concurrency", default=16, show_default=True, help="Tables worked on at once.")
@click.option("--per-catalog", default=8, show_default=True, help="Of these, tables of one catalog.")
@click.option("--history-limit", default=10, show_default=True, help="Finished LakeTablePlans kept per table.")
@click.option(
    "--job-image", envvar="LAKETABLE_JOB_IMAGE", default="", help="The image of data jobs whose LakeCatalog names none."
)
@click.option(
    "--job-service-account",
    envvar="LAKETABLE_JOB_SERVICE_ACCOUNT",
    default="default",
    show_default=True,
    help="Who data jobs run as.",
)
@click.option(
    "--job-driver-service-account",
    envvar="LAKETABLE_JOB_DRIVER_SERVICE_ACCOUNT",
    default="",
    help="Who data jobs with executors run as: it may make pods; by default LakeCatalogs get no executors.",
)
@click.option(
    "--lease",
    default="laketable-operator",
    show_default=True,
    help="The Lease in the operator's own namespace that lets one of several operators act.",
)
@click.option(
    "--lease-seconds",
    type=click.IntRange(3, 300),
    default=15,
    show_default=True,
    help="How long the Lease outlives an operator that died.",
)
@click.option("--no-lease", is_flag=True, help="Act without a Lease: only where no other operator can run.")
@click.option(
    "--identity",
    envvar="LAKETABLE_IDENTITY",
    default="",
    help="Who holds the Lease: unique to this operator, and the same after its restart; by default made up.",
)
@click.option(
    "--listen", default="", help="Where to answer probes and Prometheus, as host:port: /healthz, /readyz, /metrics."
)
@click.option("--webhook", default="", help="Where to serve admission: 0.0.0.0:9443; by default it is not served.")
@click.option(
    "--webhook-configuration",
    default="laketable",
    show_default=True,
    help="The ValidatingWebhookConfiguration to keep leading here.",
)
@click.option(
    "--webhook-secret",
    default="laketable-webhook",
    show_default=True,
    help="The Secret in the operator's own namespace for the webhook's certificate and path.",
)
@click.option(
    "--webhook-service",
    default="laketable-webhook",
    show_default=True,
    help="The Service that leads API servers to the webhook.",
)
@click.option("--webhook-url", default="", help="Where API servers reach the webhook without a Service: https://….")
@click.option(
    "--webhook-certificates",
    default="",
    help="A folder with tls.crt and tls.key of somebody else, cert-manager for one; by default they are made.",
)
@click.option(
    "--allow-local-catalogs", is_flag=True, help="Let LakeCatalogs name addresses of this machine (development)."
)
@click.option(
    "--own-cloud-identity",
    is_flag=True,
    help="Let LakeCatalogs without credentials use the operator's own cloud identity: only where all tenants may.",
)
@click.option("--log-level", type=click.Choice(["debug", "info", "warning"]), default="info", show_default=True)
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
def run_command(
    own: str | None,
    namespaces: tuple[str, ...],
    cluster: str,
    concurrency: int,
    per_catalog: int,
    history_limit: int,
    job_image: str,
    job_service_account: str,
    job_driver_service_account: str,
    lease: str,
    lease_seconds: int,
    no_lease: bool,
    identity: str,
    listen: str,
    webhook: str,
    webhook_configuration: str,
    webhook_secret: str,
    webhook_service: str,
    webhook_url: str,
    webhook_certificates: str,
    allow_local_catalogs: bool,
    own_cloud_identity: bool,
    log_level: str,
    log_format: str,
) -> int:
    """Watch LakeTables, LakeCatalogs, LakePolicies and LakeTablePlans until SIGTERM."""
    gc.set_threshold(50_000)  # a long run must not keep as much garbage, nor pause for as long, as a command may
    try:
        import kopf  # noqa: F401  (an extra: only the operator needs it)
    except ImportError as error:
        raise EnvironmentProblem(
            "The operator's packages are not installed.", hint="Run 'pip install laketable[operator]'."
        ) from error
    from reconciler.operator.connection import connect
    from reconciler.operator.logs import configure
    from reconciler.operator.run import cluster_name, operate
    from reconciler.operator.settings import Settings, WebhookSettings

    configure(log_level, log_format)
    connection = connect()
    settings = Settings(
        namespace=own or connection.default_namespace,
        cluster=cluster,
        namespaces=namespaces,
        concurrency=concurrency,
        per_catalog=per_catalog,
        history_limit=history_limit,
        job_image=job_image,
        job_service_account=job_service_account,
        job_driver_service_account=job_driver_service_account,
        lease="" if no_lease else lease,
        lease_seconds=lease_seconds,
        identity=identity,
        listen=listen,
        webhook=WebhookSettings(
            host=_address(webhook)[0],
            port=_address(webhook)[1],
            configuration=webhook_configuration,
            secret=webhook_secret,
            service=webhook_service,
            url=webhook_url.rstrip("/"),
            certificates=webhook_certificates,
        )
        if webhook
        else None,
        allow_local_catalogs=allow_local_catalogs,
        own_cloud_identity=own_cloud_identity,
    )

    async def main() -> None:
        from reconciler.operator.api import KubeApi

        named = settings
        if not named.cluster:
            async with KubeApi(connection) as api:
                named = msgspec.structs.replace(named, cluster=await cluster_name(api))
        await operate(connection, named)

    asyncio.run(main())
    return ExitCode.OK


def _address(text: str) -> tuple[str, int]:
    """Read HOST:PORT."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise click.BadParameter(f"'{text}' is no HOST:PORT.", param_hint="--webhook")
    return host.strip("[]"), int(port)
