#!/bin/sh
# 'docker compose' over podman, with the images of deploy/images/build.sh ('make images'), where there is no Docker:
#
#   deploy/podman.sh up --detach
#   deploy/podman.sh run --rm --no-deps starter list
#
# (podman 4 names networks in another way than compose expects, which would make the other services anew without --no-deps.)
# It serves Docker's API for as long as the command runs, and does what systemd's timers do for podman elsewhere: it asks
# containers how they are. COMPOSE is the command for docker compose (docker-compose), PODMAN that for podman.
set -eu
cd "$(dirname "$0")/.."
podman=${PODMAN:-podman} compose=${COMPOSE:-docker-compose}
export DISABLE_HC_SYSTEMD=true
socket=$(mktemp -d)
$podman system service --time 0 "unix://$socket/podman" &
service=$!
while sleep 1; do
	for container in $($podman ps --quiet --filter label=com.docker.compose.project=stint); do
		$podman healthcheck run "$container" || true
	done
done >/dev/null 2>&1 &
asking=$!
trap 'kill $service $asking; wait $service $asking || true; rm -rf "$socket"' EXIT
while [ ! -S "$socket/podman" ]; do sleep 0.1; done
DOCKER_HOST=unix://$socket/podman DOCKER_API_VERSION=1.41 \
	$compose --file docker-compose.yml --file deploy/compose.podman.yml "$@"
