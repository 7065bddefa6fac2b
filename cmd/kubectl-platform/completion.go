package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/platform-operator/platform-operator/pkg/cli"
)

// completing limits the time that a completion may take: a cluster that does
// not answer must not block the shell.
const completing = 3 * time.Second

// completeObjects completes the first argument, KIND/NAME.
func completeObjects(f *cli.ClusterFlags) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		all, err := kinds()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		kind, _, named := strings.Cut(prefix, "/")
		if !named {
			var found []string
			for _, k := range all {
				for _, n := range append([]string{k.Names[0]}, k.Names[2:]...) {
					if strings.HasPrefix(n, prefix) {
						found = append(found, n+"/")
						break
					}
				}
			}
			return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		}
		cl, err := connect(f)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(c.Context(), completing)
		defer cancel()
		names, err := cl.Names(ctx, cl.namespace, kind)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var found []string
		for _, n := range names {
			if s := kind + "/" + n; strings.HasPrefix(s, prefix) {
				found = append(found, s)
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeRevisions completes the number of a revision of an object.
func completeRevisions(c *cobra.Command, f *cli.ClusterFlags, object string) ([]string, cobra.ShellCompDirective) {
	cl, ref, err := named(f, object)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(c.Context(), completing)
	defer cancel()
	h, err := cl.History(ctx, cl.namespace, ref)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var found []string
	for _, r := range h.Revisions {
		n := strconv.FormatInt(r.Number, 10)
		if len(r.States) > 0 {
			n += "\t" + strings.Join(r.States, ", ")
		}
		found = append(found, n)
	}
	return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}
