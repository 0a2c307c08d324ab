# One image for agents, the environment and every other verb:   docker run --rm agentd:0.1.0 --help
#
# docker build --tag agentd .          needs a registry for the base image and a package index for the dependencies
# agentd image build                   the same, and also where there is neither (agentd image build --help)
#
# Wheels are taken from wheelhouse/ in the build context when it is there, and from the package index when not. The
# base is any image with glibc and Python 3.11 or newer; pip is needed in it only where there is no wheelhouse. Written
# for BuildKit and the legacy builder alike, so there is no RUN --mount and no syntax line.
ARG BASE_IMAGE=python:3.12-slim

# The dependencies: a layer that stays until they change.
FROM ${BASE_IMAGE} AS packages
LABEL agentd=build
RUN mkdir -p /data/agentd
ARG EXTRAS=""
WORKDIR /src
COPY pyproject.toml wheelhouse*/*.whl wheelhouse/
# pip runs from its own wheel where the base has none, and stays out of the result. Tests and headers of the packages
# are no use to an agent. Byte code is made here, because a read-only root cannot keep any later.
RUN set -eu; \
    python3 -c 'import sys, tomllib; about = tomllib.load(open("wheelhouse/pyproject.toml", "rb"))["project"]; \
        extras = about["optional-dependencies"]; wanted = [e for e in sys.argv[1].split(",") if e]; \
        print(*about["dependencies"], *(p for e in wanted for p in extras[e]), sep="\n")' "$EXTRAS" > requirements.txt; \
    python3 -m venv --without-pip /opt/agentd; \
    pip="-m pip"; from=""; \
    if ls wheelhouse/pip-*.whl > /dev/null 2>&1; then \
        pip="$(ls wheelhouse/pip-*.whl)/pip"; from="--no-index --find-links wheelhouse"; \
    fi; \
    python3 $pip --python /opt/agentd/bin/python3 --no-cache-dir --disable-pip-version-check \
        install --quiet --root-user-action=ignore --no-compile $from --requirement requirements.txt; \
    site="$(/opt/agentd/bin/python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"; \
    find "$site" -type d \( -name tests -o -name include \) -prune -exec rm -rf {} +; \
    find "$site" -type f \( -name '*.pyi' -o -name '*.a' -o -name '*.h' -o -name '*.pxd' \) -delete; \
    /opt/agentd/bin/python3 -m compileall -q "$site"; \
    echo /opt/agentd/app > "$site/agentd-app.pth"; \
    ln -s ../app/bin/agentd /opt/agentd/bin/agentd; \
    ln -s app/agentd/shell/health_probe.py /opt/agentd/health.py

# agentd itself, beside its dependencies and in a layer of its own.
FROM packages AS build
COPY . .
RUN set -eu; \
    pip="-m pip"; what="."; \
    if ls wheelhouse/app/agentd_bandits-*.whl > /dev/null 2>&1; then \
        pip="$(ls wheelhouse/pip-*.whl)/pip"; what="--no-index $(ls wheelhouse/app/agentd_bandits-*.whl)"; \
    fi; \
    python3 $pip --python /opt/agentd/bin/python3 --no-cache-dir --disable-pip-version-check \
        install --quiet --root-user-action=ignore --no-compile --no-deps --target /opt/agentd/app $what; \
    /opt/agentd/bin/python3 -m compileall -q /opt/agentd/app; \
    python3 $pip --python /opt/agentd/bin/python3 check

# What seldom changes comes first, so that a new version of agentd replaces few layers.
FROM ${BASE_IMAGE}
# A named volume mounted here takes over this owner, so that the environment may write its run directory there.
COPY --from=packages --chown=10001:10001 /data/agentd /var/lib/agentd
WORKDIR /var/lib/agentd
# A number, which needs no /etc/passwd and lets Kubernetes see that it is not root.
USER 10001:10001
# /dev/shm is writable in every container, also with a read-only root; what lies there costs no disk.
ENV PATH=/opt/agentd/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/var/lib/agentd \
    AGENTD_HEALTH_FILE=/dev/shm/agentd.health \
    OPENBLAS_NUM_THREADS=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
STOPSIGNAL SIGTERM
# What `agentd health` does, without the cost of starting it: 50 ms instead of 250, times every container on a host.
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
    CMD ["/opt/agentd/bin/python3", "-I", "-S", "/opt/agentd/health.py"]
ENTRYPOINT ["/opt/agentd/bin/agentd"]
CMD ["--help"]
COPY --from=packages /opt/agentd /opt/agentd
COPY --from=build /opt/agentd/app /opt/agentd/app
ARG VERSION=""
ARG REVISION=""
LABEL agentd=image \
      org.opencontainers.image.title="agentd" \
      org.opencontainers.image.description="Private and byzantine-proof cooperative bandits, one daemon per agent" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
