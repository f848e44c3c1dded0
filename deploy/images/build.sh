#!/bin/sh
# Makes the images that docker-compose.yml and the Dockerfile name, under these names, without an image registry: a
# base from Debian's packages, programs from Go modules, and on these what README.md here lists. It asks the machine
# how it gets both (apt's sources, `go env`), and needs root, podman with buildah, debootstrap, Go and a network.
#
#   deploy/images/build.sh             # all of them; those that are there already are left alone
#   deploy/images/build.sh --force s3  # some of them anew: debian golang postgres temporal ui s3 aws stint
#   deploy/images/build.sh --names     # prints the names only
#
# PODMAN is the command for podman, BIN the directory, an absolute path, in which the programs are kept (.stint/images).
set -eu
cd "$(dirname "$0")/../.."
here=deploy/images
podman=${PODMAN:-podman}
bin=${BIN:-$PWD/.stint/images}

# named PREFIX: the name that the compose file has for an image, in full.
named() {
	name=$(sed -n "s,^ *image: *\($1:[^ ]*\).*,\1,p" docker-compose.yml | head -1)
	case $1 in
	*/*) echo "docker.io/$name" ;;
	stint) echo "localhost/$name" ;;
	*) echo "docker.io/library/$name" ;;
	esac
}

# golang: the name that the Dockerfile has for its Go.
golang() { echo "docker.io/library/$(sed -n 's/^FROM \(golang:[^ ]*\).*/\1/p' Dockerfile)"; }

# source_of MODULE@VERSION: the directory of a module's source.
source_of() { go mod download -json "$1" | sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p'; }

# program NAME MODULE[@VERSION] PACKAGE: compiles a program of a module as that module wants it, into $bin.
program() {
	[ "$(cat "$bin/$1.module" 2>/dev/null)" = "$2" ] && return
	directory=$(source_of "$2")
	echo "compiling $1 from $2" >&2
	CGO_ENABLED=0 go build -C "$directory" -trimpath -ldflags='-s -w' -o "$bin/$1" "./$3"
	echo "$2" >"$bin/$1.module"
}

# image TARGET NAME [OPTION...]: builds one stage of the Containerfile. The context is the directory of the programs.
image() {
	target=$1 name=$2
	shift 2
	cp "$here"/*.sh "$bin/"
	$podman build --isolation chroot --network host --pull=never --layers=false "$@" \
		--file "$here/Containerfile" --target "$target" --tag "$name" "$bin"
}

# The version of a module that go.mod has.
required() { go list -m -f '{{.Version}}' "$1"; }

# Debian with nothing in it, from the mirror that this machine uses. Containers trust whom it trusts.
make_debian() {
	root=$(mktemp -d "${TMPDIR:-/tmp}/stint-debian.XXXXXX")
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | head -1)
	debootstrap --variant=minbase --include=ca-certificates trixie "$root" "$mirror"
	cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
	rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
	tar -C "$root" -c . | $podman import - docker.io/library/debian:trixie-slim
	rm -rf "$root"
}

# The Go of this machine, with its way to modules.
make_golang() {
	mkdir -p "$bin/go"
	cp -a "$(go env GOROOT)/." "$bin/go/"
	image golang "$(golang)" --env "GOPROXY=$(go env GOPROXY)" --env "GOSUMDB=$(go env GOSUMDB)"
	rm -rf "$bin/go"
}

make_postgres() { image postgres "$(named postgres)"; }

make_temporal() {
	server=go.temporal.io/server@$(required go.temporal.io/server)
	program temporal-server "$server" cmd/server
	program temporal-sql-tool "$server" cmd/tools/sql
	program temporal github.com/temporalio/cli@v1.5.1 cmd/temporal
	cp "$(source_of "$server")/docker/scripts/sh/entrypoint.sh" "$bin/temporal-entrypoint"
	image temporal "$(named temporalio/server)"
	image admin-tools "$(named temporalio/admin-tools)"
}

make_ui() {
	module=github.com/temporalio/ui-server/v2
	program ui-server "$module@$(required $module)" cmd/server
	cp "$(source_of "$module@$(required $module)")/config/docker.yaml" "$bin/ui.yaml"
	image ui "$(named temporalio/ui)"
}

make_s3() {
	module=github.com/seaweedfs/seaweedfs
	tag=$(named chrislusf/seaweedfs)
	# The module's releases have no "v" before their numbers, so that a proxy may know only some of them.
	version=$(go list -m -f '{{.Version}}' "$module@${tag##*:}" 2>/dev/null || echo latest)
	program weed "$module@$version" weed
	cp "$(source_of "$module@$version")/docker/entrypoint.sh" "$bin/s3-entrypoint"
	image s3 "$tag"
}

make_aws() { image aws "$(named amazon/aws-cli)"; }

# What the compose file's workers run: from the Dockerfile, as it is.
make_stint() {
	$podman build --isolation chroot --network host --pull=never --target python --tag "$(named stint)" .
}

# made RECIPE: the names of the images of a recipe.
made() {
	case $1 in
	debian) echo docker.io/library/debian:trixie-slim ;;
	golang) golang ;;
	temporal) named temporalio/server && named temporalio/admin-tools ;;
	ui) named temporalio/ui ;;
	s3) named chrislusf/seaweedfs ;;
	aws) named amazon/aws-cli ;;
	*) named "$1" ;;
	esac
}

there() {
	for name in $(made "$1"); do
		$podman image exists "$name" || return
	done
}

force= names=
case ${1-} in
--force) force=yes && shift ;;
--names) names=yes && shift ;;
esac
for recipe in ${*:-debian golang postgres temporal ui s3 aws stint}; do
	if [ "$names" ]; then
		made "$recipe"
	elif [ "$force" ] || ! there "$recipe"; then
		echo "== $recipe" >&2
		mkdir -p "$bin"
		"make_$recipe"
	fi
done
