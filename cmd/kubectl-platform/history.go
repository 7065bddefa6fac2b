package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/platform-operator/platform-operator/pkg/cli"
	"github.com/platform-operator/platform-operator/pkg/inspect"
)

func historyCommand(f *cli.ClusterFlags) *cobra.Command {
	var output string
	var diff bool
	cmd := &cobra.Command{
		Use:   "history KIND/NAME [--diff [A] [B]]",
		Short: "List the revisions of an object, and what changed between them",
		Long: `List the revisions of an object that are kept, oldest first: their age, whether they
are serving, the last healthy one, pinned or failed, and the changes of the pod
template since the previous one.

With --diff, print the difference between the pod templates of two revisions as a
unified diff. Without numbers these are the two latest ones; with one number, it is
compared with the revision before it.`,
		Example: `  # the revisions of a WebServer
  kubectl platform history webserver/shop

  # the differences between revisions 3 and 5
  kubectl platform history webserver/shop --diff 3 5

  # return to revision 3
  kubectl platform pin webserver/shop 3`,
		Args: apart(cobra.RangeArgs(1, 3)),
		RunE: func(c *cobra.Command, args []string) error {
			args = together(args)
			if err := checkOutput(output); err != nil {
				return err
			}
			if !diff && len(args) > 1 {
				return errors.New("numbers of revisions need --diff: history webserver/shop --diff 3 5")
			}
			if diff && output != "" {
				return errors.New("--diff prints text: remove -o")
			}
			var numbers []int64
			for _, a := range args[1:] {
				n, err := strconv.ParseInt(a, 10, 64)
				if err != nil || n < 1 {
					return fmt.Errorf("%q is not the number of a revision: history without --diff lists them", a)
				}
				numbers = append(numbers, n)
			}
			cl, ref, err := named(f, args[0])
			if err != nil {
				return err
			}
			h, err := cl.History(c.Context(), cl.namespace, ref)
			if err != nil {
				return cli.Reach(cl.config, err)
			}
			out := c.OutOrStdout()
			switch {
			case diff:
				text, err := compare(h, numbers)
				if err != nil {
					return err
				}
				return printer(out).Diff(out, text)
			case output == "json":
				return inspect.JSON(out, h)
			}
			return printer(out).History(out, h)
		},
		ValidArgsFunction: func(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 || len(args) > 2 || !diff {
				return completeObjects(f)(c, args, prefix)
			}
			return completeRevisions(c, f, args[0])
		},
	}
	cmd.Flags().BoolVar(&diff, "diff", false, "print the difference between two revisions")
	cmd.Flags().StringVarP(&output, "output", "o", "", "json, or empty for text")
	return cmd
}

// compare returns the difference between the revisions with the given numbers.
func compare(h inspect.History, numbers []int64) (string, error) {
	var from, to int64
	var err error
	switch len(numbers) {
	case 0:
		from, to, err = h.Latest()
	case 1:
		to = numbers[0]
		from, err = h.Before(to)
	default:
		from, to = numbers[0], numbers[1]
	}
	if err != nil {
		return "", err
	}
	return h.Diff(from, to)
}
