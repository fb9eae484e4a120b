# syntax=docker/dockerfile:1
# Two images:  docker build --target operator -t …/laketable-operator:0.1.0 .
#              docker build --target job      -t …/laketable-job:0.1.0 .
# The operator has no Java and no Spark; a job's pod has both and the jars, and downloads nothing.
ARG PYTHON=python:3.11-slim-bookworm
ARG JAVA=eclipse-temurin:21-jre

FROM ${PYTHON} AS build
WORKDIR /build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
COPY requirements/bootstrap.lock requirements/operator.lock requirements/job.lock requirements/
RUN python -m pip install --require-hashes -r requirements/bootstrap.lock
COPY pyproject.toml README.md LICENSE ./
COPY reconciler reconciler
RUN python -m pip wheel --no-deps --wheel-dir dist .

FROM build AS operator-packages
RUN python -m venv /opt/laketable \
    && uv pip install --python /opt/laketable/bin/python --no-cache --compile-bytecode --require-hashes -r requirements/operator.lock \
    && uv pip install --python /opt/laketable/bin/python --no-cache --compile-bytecode --no-deps dist/*.whl

FROM build AS job-packages
RUN python -m venv /opt/laketable \
    && uv pip install --python /opt/laketable/bin/python --no-cache --compile-bytecode --require-hashes -r requirements/job.lock \
    && uv pip install --python /opt/laketable/bin/python --no-cache --compile-bytecode --no-deps dist/*.whl

FROM ${JAVA} AS java

FROM ${PYTHON} AS base
RUN groupadd --gid 10001 laketable \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin laketable
ENV PATH=/opt/laketable/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001

FROM base AS operator
COPY --from=operator-packages /opt/laketable /opt/laketable
ENTRYPOINT ["laketable"]
CMD ["operator", "run"]

FROM base AS job
ARG MAVEN=https://repo1.maven.org/maven2
COPY --from=java /opt/java/openjdk /opt/java/openjdk
# Named as reconciler/engines/session.py looks for them; readable for everyone, whatever user a pod runs as.
ADD --chmod=644 --checksum=sha256:3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82 \
    ${MAVEN}/org/apache/iceberg/iceberg-spark-runtime-4.1_2.13/1.12.0/iceberg-spark-runtime-4.1_2.13-1.12.0.jar \
    /opt/jars/org.apache.iceberg_iceberg-spark-runtime-4.1_2.13-1.12.0.jar
ADD --chmod=644 --checksum=sha256:f8dce420a6016278497f4f0560f65602b9db858de141b541cf91a4644ebe4639 \
    ${MAVEN}/org/xerial/sqlite-jdbc/3.54.1.0/sqlite-jdbc-3.54.1.0.jar \
    /opt/jars/org.xerial_sqlite-jdbc-3.54.1.0.jar
ADD --chmod=644 --checksum=sha256:dd7e49ffa4ac9b215bed846581991259e3aec9bb2fa08d6cec029c46cd66d957 \
    ${MAVEN}/org/apache/iceberg/iceberg-aws-bundle/1.12.0/iceberg-aws-bundle-1.12.0.jar \
    /opt/jars/org.apache.iceberg_iceberg-aws-bundle-1.12.0.jar
COPY --from=job-packages /opt/laketable /opt/laketable
# A job's root is read-only and only /tmp can be written to; a JVM does not read TMPDIR.
ENV JAVA_HOME=/opt/java/openjdk LAKETABLE_JARS=/opt/jars \
    JAVA_TOOL_OPTIONS="-Djava.io.tmpdir=/tmp -XX:-UsePerfData"
CMD ["laketable", "execute", "--help"]
