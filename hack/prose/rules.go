package main

import (
	"regexp"
	"strings"
)

// A rule names an expression to avoid. Patterns ignore case; a space in a
// pattern matches any white space, because sentences continue on the next line.
type rule struct {
	pattern string
	use     string
	except  []string // expressions that contain the pattern and are legitimate
}

// rules are the vocabulary, as far as a regular
// expression can recognize it; docs/style.md has the rest. A rule that reports a legitimate sentence gets an
// exception rather than a cleverer pattern.
var rules = []rule{
	{pattern: `nobody|somebody|whoever|nobody else|somebody else`, use: "the passive or the imperative"},
	{pattern: `tells? whether|says? whether`, use: "reports whether"},
	{
		pattern: `what of|of what`, use: "the part of X that …, X's …",
		except: []string{`regardless of what`, `independent of what`, `because of what`},
	},
	{
		pattern: `stands?|stood|standing`, use: "exists; the live object",
		except: []string{`stands? (in )?for`, `stands? out`, `long-standing`},
	},
	{pattern: `that (is|are) there|which (is|are) there|what there is|what is there`, use: "exists"},
	{
		pattern: `(is|are|was|were|be) made`, use: "is created",
		except: []string{`(is|are|was|were|be) made (of|up|from|available|ready)`, `(request|decision|change|call|progress|choice|commit)s? (\w+ )?(is|are|was|were|be) made`},
	},
	{pattern: `anew`, use: "again, from scratch"},
	{
		pattern: `(is|are|was|were) (gone|going)|goes away|went away`, use: "is deleted, is being deleted, no longer exists",
		except: []string{`(is|are|was|were) going to`, `(component|process) is gone`},
	},
	{pattern: `(a|an|the|one|each|every|this|first|second|next|last|later|earlier|whole|same|per) pass(es)?`, use: "reconcile, reconciliation"},
	{pattern: `pass's`, use: "the reconcile's"},
	{pattern: `looks? after|looked after|looking after`, use: "reconciles, manages"},
	{pattern: `ours|theirs`, use: "owned, unowned"},
	{
		pattern: `of others|foreign`, use: "unowned, managed by another controller",
		except: []string{`number of others`},
	},
	{pattern: `goes back|go back|going back|went back`, use: "rolls back, returns to"},
	{
		pattern: `serves? on|serving on`, use: "keeps serving",
		except: []string{`serv(e|es|ing) on (port|a port|the port|its port|ports|address|\[|:|[0-9])`},
	},
	{pattern: `gets on`, use: "makes progress"},
	{pattern: `lets? go of|letting go of|let go of`, use: "releases"},
	{
		pattern: `rights?`, use: "permissions, RBAC",
		except: []string{`rights reserved`, `right(most)? (away|now|after|before|side|hand)`, `(the|is|are) right`, `from (the )?(left to )?right`},
	},
	{pattern: `definitions? (is|are|of (the|a|its|our) kinds?)|without (its|their|the) definitions?|(the|their|its|our|installed) definitions`, use: "CRD, kind, API"},
	{pattern: `cluster (does not know|knows)|known to (a|the) cluster`, use: "the API is served by the cluster"},
	{pattern: `figures`, use: "metrics, counts, results"},
	{
		pattern: `faults?`, use: "validation error, failure",
		except: []string{`injected faults?`, `faults? (is |are )?injected`, `faults\.go`, `fault reports whether`, `fault[- ](injection|tolerance|tolerant|free|domain)`, `segmentation fault`, `package fault`},
	},
	{pattern: `beside`, use: "next to, in addition to; auxiliary resources"},
	{pattern: `unchangeable`, use: "immutable"},
	{pattern: `the article|the seed's operator|the seed operator|seed's`, use: "the legacy operator"},
}

// matcher is a compiled rule.
type matcher struct {
	rule
	pattern *regexp.Regexp
	except  []*regexp.Regexp
}

var matchers = compile(rules)

func compile(rules []rule) []matcher {
	out := make([]matcher, 0, len(rules))
	for _, r := range rules {
		m := matcher{rule: r, pattern: expression(r.pattern)}
		for _, e := range r.except {
			m.except = append(m.except, expression(e))
		}
		out = append(out, m)
	}
	return out
}

// expression compiles a pattern that matches whole words.
func expression(pattern string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)(?:^|\b)(?:` + strings.ReplaceAll(pattern, " ", `\s+`) + `)(?:\b|$)`)
}

// ignored are files that are generated or written by third parties, and those
// that quote the expressions to avoid.
var ignored = []string{
	"LICENSE",
	"THIRD_PARTY_LICENSES",
	"bin",
	"charts/platform-operator/files", // copied from config
	"config/crd/bases",               // generated from apis
	"config/rbac/role.yaml",
	"hack/prose",
	"docs/style.md",
}
