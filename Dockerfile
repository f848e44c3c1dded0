# syntax=docker/dockerfile:1

# stint with what a filter may want: awk, sed, tr and the like, and Python. Build it with
#
#   docker build -t stint .
#
# or without Python with `--target plain`,
# and see docker-compose.yml for a cluster. Other tools come with an image of your own:
#
#   FROM stint
#   USER root
#   RUN apt-get update && apt-get install -y --no-install-recommends jq && rm -rf /var/lib/apt/lists/*
#   USER stint

FROM golang:1.26.8-bookworm AS build
ENV CGO_ENABLED=0 GOCACHE=/cache
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
# The tag leaves out the gRPC transport of Google Cloud Storage, which the embedded server links for
# its archives and nobody here uses.
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/cache \
    go build -trimpath -buildvcs=false -tags disable_grpc_modules -ldflags='-s -w' -o /stint .

FROM debian:trixie-slim AS plain
# For TLS to Temporal and buckets.
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --create-home --shell /usr/sbin/nologin stint
COPY --from=build /stint /usr/local/bin/stint
USER stint
WORKDIR /home/stint
# A filter may leave processes behind; run with --init, so that somebody waits for them.
ENTRYPOINT ["stint"]

# The last stage, so that it is what is built if no target is named.
FROM plain AS python
USER root
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3 \
    && rm -rf /var/lib/apt/lists/*
USER stint
