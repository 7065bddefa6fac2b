#!/usr/bin/env bash
# size.sh prints how large the project is, and how large it should become. The files
# are those that git does not ignore, committed or not.
set -euo pipefail
cd "$(dirname "$0")/.."

GOCYCLO=github.com/fzipp/gocyclo/cmd/gocyclo@v0.6.0

# files prints the existing files that match the patterns of git.
files() { git ls-files --cached --others --exclude-standard -- "$@" | while read -r f; do [ ! -f "$f" ] || echo "$f"; done; }
# Go code without tests and without generated code, in lines with comments and blank lines.
go_files() { files "${@/%/*.go}" | grep -v '_test\.go$' | xargs -r grep -LE '^// Code generated .* DO NOT EDIT\.$' || true; }
# Test machinery is Go code that exists for tests only, in files that are not _test.go.
machinery=(pkg/testkit/ e2e/ webhooks/admissiontest/)
product() { go_files '' | grep -vE "^($(IFS='|'; echo "${machinery[*]}"))"; }
lines() { xargs -r cat | wc -l; }
# facts counts the fields of a struct of a package: what is remembered about each object,
# and about each of its children, between reconciles.
facts() {
	go_files "$1" | xargs cat | awk -v struct="^type $2 struct [{]" '
		$0 ~ struct { inside = found = 1; next }
		/^\}/ { inside = 0 }
		inside { sub(/\/\/.*/, ""); if (NF) { n++; if (match($0, /^[ \t]*([a-zA-Z0-9_]+, *)+/)) n += gsub(/,/, ",", $0) } }
		END { if (!found) { print "size.sh: " dir " has no such struct" >"/dev/stderr"; exit 1 }; print n + 0 }' dir="$1"
}
row() { printf '%-62s %10s %10s\n' "$@"; }

complexity=$(product | xargs go run "$GOCYCLO")
# The goals are those of the effort that began after commit 407a345.
row '' now goal
row 'product: lines of Go without tests and generated code' "$(product | lines)" 31500
row '  pkg/converge' "$(go_files pkg/converge/ | lines)" 2000
row '  pkg/apply' "$(go_files pkg/apply/ | lines)" 2300
row '  functions with a cyclomatic complexity over 15' "$(awk '$1 > 15' <<<"$complexity" | wc -l)" 15
row '  functions with a cyclomatic complexity over 25' "$(awk '$1 > 25' <<<"$complexity" | wc -l)" 0
row '  facts remembered per object: converge.memory and apply.facts' "$(($(facts pkg/converge/ memory) + $(facts pkg/apply/ facts)))" 8
row 'test machinery: lines of Go in pkg/testkit, e2e, admissiontest' "$(go_files "${machinery[@]}" | lines)" 18500
row '  e2e/cluster' "$(go_files e2e/cluster/ | lines)" 7200
row 'documentation: words in docs' "$(files 'docs/*.md' | xargs cat | wc -w)" 52000
row '  decisions' "$(files 'docs/decisions/[0-9]*.md' | wc -l)" 28
