#!/bin/sh
# su-exec USER COMMAND...: runs a command as a user, in the place of this process.
user=$1
shift
exec setpriv --reuid="$user" --regid="$user" --init-groups "$@"
