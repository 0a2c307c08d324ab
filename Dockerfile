# One image for agents, the environment and every other verb:   docker run --rm agentd:0.1.0 --help
#
# docker build --tag agentd .          needs a registry for the base image and a package index for the dependencies
# agentd image build                   the same, and also where there is neither (agentd image build --help)
#
# Wheels are taken from wheelhouse/ in the build context when it is there, and from the package index when not. The
# base is any image with glibc and Python 3.11 or newer; pip is needed in it only where there is no wheelhouse. Written
# for BuildKit and the legacy builder alike, so there is no RUN --mount and no syntax line.
ARG BASE_IMAGE=python:3.12-slim

FROM ${BASE_IMAGE} AS build
LABEL agentd=build
RUN mkdir -p /data/agentd
ARG EXTRAS=""
WORKDIR /src
COPY . .
# pip runs from its own wheel where the base has none, and stays out of the result. Tests and headers of the packages
# are no use to an agent. Byte code is made here, because a read-only root cannot keep any later.
RUN set -eu; \
    python3 -m venv --without-pip /opt/agentd; \
    if ls wheelhouse/agentd-*.whl > /dev/null 2>&1; then \
        pip="$(ls wheelhouse/pip-*.whl)/pip"; \
        from="--no-index --find-links wheelhouse $(ls wheelhouse/agentd-*.whl)"; \
    else \
        pip="-m pip"; \
        from="."; \
    fi; \
    site="$(/opt/agentd/bin/python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"; \
    python3 $pip --python /opt/agentd/bin/python3 --no-cache-dir --disable-pip-version-check \
        install --quiet --root-user-action=ignore --no-compile $from"${EXTRAS:+[$EXTRAS]}"; \
    find "$site" -type d \( -name tests -o -name include \) -prune -exec rm -rf {} +; \
    find "$site" -type f \( -name '*.pyi' -o -name '*.a' -o -name '*.h' -o -name '*.pxd' \) -delete; \
    /opt/agentd/bin/python3 -m compileall -q "$site"; \
    cp "$site/agentd/shell/health_probe.py" /opt/agentd/health.py

# What seldom changes comes first, so that a new version of agentd replaces few layers.
FROM ${BASE_IMAGE}
# A named volume mounted here takes over this owner, so that the environment may write its run directory there.
COPY --from=build --chown=10001:10001 /data/agentd /var/lib/agentd
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
COPY --from=build /opt/agentd /opt/agentd
ARG VERSION=""
ARG REVISION=""
LABEL org.opencontainers.image.title="agentd" \
      org.opencontainers.image.description="Private and byzantine-proof cooperative bandits, one daemon per agent" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
