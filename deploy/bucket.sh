#!/bin/sh
# Makes the bucket BUCKET, if it is missing, and puts the examples' data into it, below in/.
set -eu

s3api() { aws --endpoint-url "$AWS_ENDPOINT_URL" s3api "$@"; }

s3api head-bucket --bucket "$BUCKET" 2>/dev/null || s3api create-bucket --bucket "$BUCKET"
for file in /data/*.csv /data/*.jsonl; do
	s3api put-object --bucket "$BUCKET" --key "in/${file##*/}" --body "$file"
done
