#!/bin/sh
# Waits until the Temporal server at TEMPORAL_ADDRESS serves, and makes the namespace
# TEMPORAL_NAMESPACE if it is missing.
set -eu

tries=60
until temporal operator cluster health; do
	tries=$((tries - 1))
	if [ "$tries" -eq 0 ]; then
		echo "the Temporal server at $TEMPORAL_ADDRESS does not serve" >&2
		exit 1
	fi
	sleep 1
done

temporal operator namespace describe --namespace "$TEMPORAL_NAMESPACE" ||
	temporal operator namespace create --namespace "$TEMPORAL_NAMESPACE" --retention 7d
