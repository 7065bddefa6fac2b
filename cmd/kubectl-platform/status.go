package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/platform-operator/platform-operator/pkg/cli"
	"github.com/platform-operator/platform-operator/pkg/inspect"
)

func statusCommand(f *cli.ClusterFlags) *cobra.Command {
	var output string
	var watch, all bool
	cmd := &cobra.Command{
		Use:   "status [KIND/NAME]",
		Short: "Show whether objects are healthy, and if not, why and what to do",
		Long: `Show the state of an object: why it is not ready and what to do, its revisions,
pending changes and the latest automatic actions, its conditions, and its children
down to the pods. Without an argument, print a table of the objects in the
namespace, in which those that need attention come first.

KIND is the name of a kind or its short name, such as webserver or ws. The command
only reads, with your permissions: types that you may not list are left out, and
named.

Exit code, except with --watch:
  0  all objects are ready or paused, or there are none
  1  an object is in another state
  2  the object does not exist, the cluster cannot be read, or the command line is invalid`,
		Example: `  # all objects in the namespace of the context, and in all namespaces
  kubectl platform status
  kubectl platform status -A

  # one object, with its children and pods
  kubectl platform status webserver/shop

  # follow a rollout; Ctrl-C ends it
  kubectl platform status ws/shop --watch

  # the names of the objects that are stalled
  kubectl platform status -A -o json | jq -r '.objects[] | select(.state == "Stalled") | "\(.namespace)/\(.name)"'`,
		Args: func(c *cobra.Command, args []string) error { return cli.Unclear(cobra.MaximumNArgs(2)(c, args)) },
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkOutput(output); err != nil {
				return cli.Unclear(err)
			}
			if len(args) > 0 && all {
				return cli.Unclear(errors.New("-A shows all objects: remove it, or the name of the object"))
			}
			cl, err := connect(f)
			if err != nil {
				return cli.Unclear(err)
			}
			if len(args) == 0 {
				namespace := cl.namespace
				if all {
					namespace = ""
				}
				read := func(ctx context.Context, i inspect.Inspector) (inspect.Report, error) { return i.List(ctx, namespace) }
				healthy := true
				err := show(c, cl, watch, namespace, cl.Kinds, read, func(p inspect.Printer, r inspect.Report) error {
					healthy = !slices.ContainsFunc(r.Objects, unhealthy)
					if output == "json" {
						return inspect.JSON(c.OutOrStdout(), r)
					}
					if len(r.Objects) == 0 && namespace != "" {
						fmt.Fprintf(c.OutOrStdout(), "No objects in namespace %s. -n selects another namespace, -A all of them.\n", namespace)
						return nil
					}
					return p.Report(c.OutOrStdout(), r, all)
				})
				return verdict(err, healthy || watch)
			}
			ref, err := cl.Kinds.Parse(args...)
			if err != nil {
				return cli.Unclear(err)
			}
			read := func(ctx context.Context, i inspect.Inspector) (inspect.Object, error) {
				return i.Object(ctx, cl.namespace, ref)
			}
			healthy := true
			err = show(c, cl, watch, cl.namespace, []inspect.Kind{ref.Kind}, read, func(p inspect.Printer, o inspect.Object) error {
				healthy = !unhealthy(o)
				if output == "json" {
					return inspect.JSON(c.OutOrStdout(), o)
				}
				return p.Object(c.OutOrStdout(), o)
			})
			return verdict(err, healthy || watch)
		},
		ValidArgsFunction: completeObjects(f),
	}
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "the objects of all namespaces")
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return cli.Unclear(err) })
	cmd.Flags().StringVarP(&output, "output", "o", "", "json, or empty for text")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "print again after each change, until Ctrl-C")
	return cmd
}

func unhealthy(o inspect.Object) bool {
	return o.State != inspect.StateReady && o.State != inspect.StatePaused
}

// verdict returns the error that has the exit code of status.
func verdict(err error, healthy bool) error {
	if err == nil && !healthy {
		return cli.Exit{Code: 1}
	}
	return cli.Unclear(err)
}

// clear moves the cursor of a terminal to the top, and clears the screen.
const clearScreen = "\033[H\033[2J"

// show prints what read returns, once or after each change.
func show[T any](c *cobra.Command, cl cluster, watch bool, namespace string, kinds []inspect.Kind, read func(context.Context, inspect.Inspector) (T, error), write func(inspect.Printer, T) error) error {
	out := c.OutOrStdout()
	if !watch {
		v, err := read(c.Context(), cl.Inspector)
		if err != nil {
			return cli.Reach(cl.config, err)
		}
		return write(printer(out), v)
	}
	i, changes, err := cl.Watch(c.Context(), cl.config, namespace, kinds...)
	if c.Context().Err() != nil {
		return nil //nolint:nilerr // interrupted while it was starting
	}
	if err != nil {
		return cli.Reach(cl.config, err)
	}
	terminal, first := cli.Terminal(out), true
	separate := func() {
		switch {
		case terminal != nil:
			_, _ = terminal.WriteString(clearScreen)
		case !first:
			fmt.Fprintln(out)
		}
		first = false
	}
	return inspect.Follow(c.Context(), changes,
		func(ctx context.Context) (T, error) { return read(ctx, i) },
		func(v T) error { separate(); return write(printer(out), v) },
		func(err error) error { separate(); _, err = fmt.Fprintln(out, err); return err })
}
