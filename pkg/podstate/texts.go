package podstate

import "regexp"

// The CRI has no codes for most of these causes, so that only the texts of the container
// runtimes distinguish them. A text that is not listed shows nothing.
var (
	// imageMissing matches the answer of a registry that does not have the image:
	//
	//   - containerd: failed to resolve reference "web:2": web:2: not found. Without
	//     "failed to resolve", it is a layer or a snapshot of the node that was not found.
	//   - CRI-O: reading manifest 2 in web: manifest unknown
	//
	// A registry that denies access is not listed: credentials may have expired.
	imageMissing = regexp.MustCompile(`failed to resolve (?:reference|image)\b.*: not found$|manifest unknown|name unknown|repository name not known`)
	// unreachable matches what a registry that is overloaded or cannot be reached leads
	// to, and what the node itself lacks.
	unreachable = regexp.MustCompile(`connection refused|connection reset|i/o timeout|timed out|[Tt]imeout|deadline exceeded|` +
		`no such host|server misbehaving|name resolution|network is unreachable|no route to host|\bEOF\b|` +
		`429 Too Many|toomanyrequests|\b5\d\d (?:Internal|Bad Gateway|Service|Gateway)|` +
		`QPS exceeded|no space left on device`)
	// commandMissing matches the errors of runc and crun for a command that the image
	// does not contain. A missing runtime or shim has another text:
	//
	//   - runc: unable to start container process: exec: "app": executable file not found in $PATH
	//   - runc: unable to start container process: exec: "/app": stat /app: no such file or directory
	//   - crun: executable file `app` not found in $PATH
	commandMissing = regexp.MustCompile(`start(?:ing)? container process.* exec: .*(?:executable file not found|no such file or directory)|executable file .+ not found`)
)

func lacksCommand(message string) bool { return commandMissing.MatchString(message) }
