# syntax=docker/dockerfile:1

# Three images, each with what a filter may want: awk, sed, tr and the like.
#
#   docker build -t stint .                                        all of stint, with Temporal's server embedded
#   docker build -t stint-worker --target stint-worker .           workers and clients of a cluster, without a server
#   docker build -t stint-worker:python --target python .          the same, with Python
#
# See docker-compose.yml for a cluster. Other tools come with an image of your own:
#
#   FROM stint-worker
#   USER root
#   RUN apt-get update && apt-get install -y --no-install-recommends jq && rm -rf /var/lib/apt/lists/*
#   USER stint

FROM golang:1.26.8-bookworm AS source
ENV CGO_ENABLED=0 GOCACHE=/cache
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .

# The tag disable_grpc_modules leaves out the gRPC transport of Google Cloud Storage, which the embedded server links for
# its archives and nobody here uses. noserver leaves out the server, nofastjson what only
# Go handlers use.
FROM source AS build
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/cache \
    go build -trimpath -buildvcs=false -tags disable_grpc_modules -ldflags='-s -w' -o /stint .

FROM source AS build-worker
# Without inlining the client of S3, whose calls wait for a network, is 2 MB smaller.
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/cache \
    go build -trimpath -buildvcs=false -gcflags=github.com/aws/...=-l -tags disable_grpc_modules,noserver,nofastjson -ldflags='-s -w' -o /stint-worker ./cmd/stint-worker

FROM debian:trixie-slim AS base
# For TLS to Temporal and buckets.
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --create-home --shell /usr/sbin/nologin stint
WORKDIR /home/stint

FROM base AS stint-worker
# Its commands are stint's, so that both names work: 'stint list' asks whether Temporal is reached.
COPY --from=build-worker /stint-worker /usr/local/bin/stint-worker
RUN ln -s stint-worker /usr/local/bin/stint
USER stint
# A filter may leave processes behind; run with --init, so that somebody waits for them.
ENTRYPOINT ["stint-worker"]

FROM stint-worker AS python
USER root
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3 \
    && rm -rf /var/lib/apt/lists/*
USER stint

FROM base AS stint
COPY --from=build /stint /usr/local/bin/stint
USER stint
# As above.
ENTRYPOINT ["stint"]
