// Package rights takes the rules of roles apart, for tests of what the operator
// is granted.
package rights

import (
	"iter"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Right is one verb on one resource; with a name, on that object only.
type Right struct{ Group, Resource, Name, Verb string }

// Each yields every right that the rules give.
func Each(rules []rbacv1.PolicyRule) iter.Seq[Right] {
	return func(yield func(Right) bool) {
		for _, rule := range rules {
			names := rule.ResourceNames
			if len(names) == 0 {
				names = []string{""}
			}
			for _, g := range rule.APIGroups {
				for _, r := range rule.Resources {
					for _, n := range names {
						for _, v := range rule.Verbs {
							if !yield(Right{g, r, n, v}) {
								return
							}
						}
					}
				}
			}
		}
	}
}
