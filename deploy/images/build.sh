#!/bin/sh
# Makes the images that docker-compose.yml and the Dockerfile name, under these names, without an image registry: a
# base from Debian's packages, programs from Go modules, and on these what README.md here lists. It asks the machine
# how it gets both (apt's sources, `go env`), and needs root, podman with buildah, debootstrap, Go and a network.
#
#   deploy/images/build.sh             # all of them; those that are there already are left alone
#   deploy/images/build.sh --force s3  # some of them anew: debian golang postgres temporal ui s3 aws stint
#
# PODMAN is the command for podman, BIN a directory in which the programs are kept (.stint/images).
set -eu
cd "$(dirname "$0")/../.."
here=deploy/images
podman=${PODMAN:-podman}
bin=$(mkdir -p "${BIN:-.stint/images}" && cd "${BIN:-.stint/images}" && pwd)

# named PREFIX: the name that the compose file has for an image, in full.
named() {
	name=$(sed -n "s,^ *image: *\($1:[^ ]*\).*,\1,p" docker-compose.yml | head -1)
	case $1 in */*) echo "docker.io/$name" ;; *) echo "docker.io/library/$name" ;; esac
}

# program NAME MODULE[@VERSION] PACKAGE: compiles a program of a module as that module wants it, into $bin.
program() {
	[ -x "$bin/$1" ] && return
	directory=$(go mod download -json "$2" | sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p')
	echo "compiling $1 from $2" >&2
	CGO_ENABLED=0 go build -C "$directory" -trimpath -ldflags='-s -w' -o "$bin/$1" "./$3"
	cp "$directory/LICENSE" "$bin/$1.LICENSE"
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
	name=$(sed -n 's/^FROM \(golang:[^ ]*\).*/\1/p' Dockerfile)
	image golang "docker.io/library/$name" --env "GOPROXY=$(go env GOPROXY)" --env "GOSUMDB=$(go env GOSUMDB)"
	rm -rf "$bin/go"
}

make_postgres() { image postgres "$(named postgres)"; }

make_temporal() {
	server=go.temporal.io/server@$(required go.temporal.io/server)
	program temporal-server "$server" cmd/server
	program temporal-sql-tool "$server" cmd/tools/sql
	program temporal github.com/temporalio/cli@v1.5.1 cmd/temporal
	directory=$(go mod download -json "$server" | sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p')
	cp "$directory/docker/scripts/sh/entrypoint.sh" "$bin/temporal-entrypoint"
	image temporal "$(named temporalio/server)"
	image admin-tools "$(named temporalio/admin-tools)"
}

make_ui() {
	module=github.com/temporalio/ui-server/v2
	program ui-server "$module@$(required $module)" cmd/server
	directory=$(go mod download -json "$module@$(required $module)" | sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p')
	cp "$directory/config/docker.yaml" "$bin/ui.yaml"
	image ui "$(named temporalio/ui)"
}

make_s3() {
	module=github.com/seaweedfs/seaweedfs
	tag=$(named chrislusf/seaweedfs)
	# The module's releases have no "v" before their numbers, so that a proxy may know only some of them.
	version=$(go list -m -f '{{.Version}}' "$module@${tag##*:}" 2>/dev/null || echo latest)
	program weed "$module@$version" weed
	directory=$(go mod download -json "$module@$version" | sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p')
	cp "$directory/docker/entrypoint.sh" "$bin/s3-entrypoint"
	image s3 "$tag"
}

make_aws() { image aws "$(named amazon/aws-cli)"; }

# What the compose file's workers run: from the Dockerfile, as it is.
make_stint() {
	$podman build --isolation chroot --network host --pull=never --target python --tag "$(named stint | sed 's,docker.io/library,localhost,')" .
}

# made IMAGE: the name of one image of each recipe.
made() {
	case $1 in
	debian) echo docker.io/library/debian:trixie-slim ;;
	golang) echo "docker.io/library/$(sed -n 's/^FROM \(golang:[^ ]*\).*/\1/p' Dockerfile)" ;;
	temporal) named temporalio/admin-tools ;;
	ui) named temporalio/ui ;;
	s3) named chrislusf/seaweedfs ;;
	aws) named amazon/aws-cli ;;
	stint) named stint | sed 's,docker.io/library,localhost,' ;;
	*) named "$1" ;;
	esac
}

force=
if [ "${1-}" = --force ]; then
	force=yes
	shift
fi
for recipe in ${*:-debian golang postgres temporal ui s3 aws stint}; do
	if [ -z "$force" ] && $podman image exists "$(made "$recipe")"; then
		continue
	fi
	echo "== $recipe" >&2
	"make_$recipe"
done
