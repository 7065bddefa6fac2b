// Package rights expands the rules of roles, for tests of the operator's
// permissions.
package rights

import (
	"iter"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Right is the permission to use one verb on one resource, or, with a name, only on
// that object.
type Right struct{ Group, Resource, Name, Verb string }

// Each yields every permission that the rules grant.
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
