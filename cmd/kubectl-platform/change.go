package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/platform-operator/platform-operator/pkg/cli"
	"github.com/platform-operator/platform-operator/pkg/inspect"
)

// fieldManager is the field manager of changes. Flux removes the fields of managers whose
// names begin with kubectl.
const fieldManager = "platform-operator-cli"

// change is a change of one field of the spec.
type change struct {
	field []string
	value any // nil removes the field
	// done says what happens, and back is the command that takes it back.
	done, back string
}

// target is an object that is changed.
type target struct {
	cluster

	ref inspect.Reference
	obj *unstructured.Unstructured
	// state is the object as status shows it.
	state inspect.Object
}

func (t target) get(field ...string) any {
	v, _, _ := unstructured.NestedFieldNoCopy(t.obj.Object, append([]string{"spec"}, field...)...)
	return v
}

// command returns a command line about the object.
func (t target) command(verb string, args ...string) string {
	return strings.Join(append([]string{"kubectl platform -n", t.namespace, verb, t.ref.String()}, args...), " ")
}

// changeCommand returns a command that changes an object. decide returns the change.
func changeCommand(f *cli.ClusterFlags, cmd *cobra.Command, decide func(*cobra.Command, target, []string) (change, error)) *cobra.Command {
	var dryRun string
	cmd.Flags().StringVar(&dryRun, "dry-run", "none", "none, or server: the change is checked but not made")
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = completeObjects(f)
	}
	cmd.Args = apart(cmd.Args)
	cmd.RunE = func(c *cobra.Command, args []string) error {
		args = together(args)
		if dryRun != "none" && dryRun != "server" {
			return fmt.Errorf("--dry-run=%s must be none or server", dryRun)
		}
		t, err := find(c, f, args[0])
		if err != nil {
			return err
		}
		if t.state.State == inspect.StateDeleting {
			return fmt.Errorf("%s is being deleted", t.ref)
		}
		ch, err := decide(c, t, args[1:])
		if err != nil {
			return err
		}
		patch := map[string]any{}
		if err := unstructured.SetNestedField(patch, ch.value, append([]string{"spec"}, ch.field...)...); err != nil {
			return fmt.Errorf("changing %s: %w", t.ref, err)
		}
		raw, err := json.Marshal(patch)
		if err != nil {
			return fmt.Errorf("changing %s: %w", t.ref, err)
		}
		warnings := t.warnings(ch)
		opts := []client.PatchOption{client.FieldOwner(fieldManager)}
		if dryRun == "server" {
			opts = append(opts, client.DryRunAll)
			ch.done += " (dry run: nothing was changed)"
		}
		if err := t.client.Patch(c.Context(), t.obj, client.RawPatch(types.MergePatchType, raw), opts...); err != nil {
			return cli.Reach(t.config, fmt.Errorf("changing %s in namespace %q: %w", t.ref, t.namespace, err))
		}
		for _, w := range warnings {
			fmt.Fprintln(c.ErrOrStderr(), "Warning: "+w)
		}
		fmt.Fprintf(c.OutOrStdout(), "%s: %s. To take it back: %s\n", t.ref, ch.done, ch.back)
		return nil
	}
	return cmd
}

// together makes KIND/NAME of a kind and a name, which kubectl accepts as well.
func together(args []string) []string {
	if len(args) > 1 && !strings.Contains(args[0], "/") {
		return append([]string{args[0] + "/" + args[1]}, args[2:]...)
	}
	return args
}

// apart checks arguments that may be a kind and a name.
func apart(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if err := check(c, together(args)); err != nil {
			return fmt.Errorf("%w: use %s", err, c.UseLine())
		}
		return nil
	}
}

// find reads an object.
func find(c *cobra.Command, f *cli.ClusterFlags, arg string) (target, error) {
	cl, ref, err := named(f, arg)
	if err != nil {
		return target{}, err
	}
	t := target{cluster: cl, ref: ref}
	t.obj, t.state, err = cl.Get(c.Context(), cl.namespace, ref)
	return t, cli.Reach(cl.config, err)
}

// warnings returns why a change may not have the effect that it seems to have.
func (t target) warnings(ch change) []string {
	var all []string
	path := fieldpath.MakePathOrDie("spec")
	for _, name := range ch.field {
		path = append(path, fieldpath.PathElement{FieldName: &name})
	}
	if owner, tool := t.gitOps(path); owner != "" {
		all = append(all, fmt.Sprintf("%s sets spec.%s again: change it in its repository", owner, strings.Join(ch.field, ".")))
	} else if tool != "" {
		all = append(all, tool+" manages "+t.ref.String()+", and its repository does not contain this change")
	}
	if t.state.Paused {
		all = append(all, "spec.paused is true: pods change when it is false")
	}
	if pin := t.state.PinnedRevision; pin != nil && ch.field[len(ch.field)-1] != "pinnedRevision" {
		all = append(all, fmt.Sprintf("revision %d is pinned: pods change when the pin is removed: %s", *pin, t.command("pin", "--remove")))
	}
	return all
}

// gitOps returns the field manager of a GitOps tool that owns a field of the object, and one
// that owns any.
func (t target) gitOps(path fieldpath.Path) (owner, tool string) {
	for _, m := range t.obj.GetManagedFields() {
		if !slices.ContainsFunc([]string{"argocd", "kustomize-controller", "helm-controller", "flux"}, func(p string) bool { return strings.HasPrefix(m.Manager, p) }) || m.Subresource != "" {
			continue
		}
		tool = m.Manager
		var set fieldpath.Set
		if m.FieldsV1 != nil && set.FromJSON(m.FieldsV1.GetRawReader()) == nil && set.Has(path) {
			owner = m.Manager
		}
	}
	return owner, tool
}

// rollsOut returns an error unless objects of the kind have rollouts.
func (t target) rollsOut() error {
	if t.ref.Kind.Has("rollout") {
		return nil
	}
	return fmt.Errorf("objects of kind %s have no rollouts. To replace the pod: kubectl -n %s delete pod %s-immortalpod", t.ref.Kind.Kind, t.namespace, t.ref.Name)
}

func restartCommand(f *cli.ClusterFlags) *cobra.Command {
	return changeCommand(f, &cobra.Command{
		Use:   "restart KIND/NAME",
		Short: "Replace all pods of an object, or try a failed rollout again",
		Long: `Set spec.rollout.restartedAt to the current time: all pods are replaced as in any
rollout, which also applies pending changes. A failed rollout is tried again.`,
		Args: cobra.ExactArgs(1),
	}, func(_ *cobra.Command, t target, _ []string) (change, error) {
		at := now().UTC().Format(time.RFC3339)
		back := "set an earlier revision with " + t.command("pin", "REVISION")
		if r := t.state.Revisions; r != nil && r.Current != 0 {
			back = t.command("pin", strconv.FormatInt(r.Current, 10))
		}
		return change{[]string{"rollout", "restartedAt"}, at, "pods are replaced, spec.rollout.restartedAt is " + at, back}, t.rollsOut()
	})
}

func setImageCommand(f *cli.ClusterFlags) *cobra.Command {
	return changeCommand(f, &cobra.Command{
		Use:   "set-image KIND/NAME IMAGE",
		Short: "Change the image of an object",
		Long:  `Set spec.image. If the pods with the new image fail, the object is rolled back.`,
		Args:  cobra.ExactArgs(2),
	}, func(_ *cobra.Command, t target, args []string) (change, error) {
		before, _ := t.get("image").(string)
		if before == args[0] {
			return change{}, fmt.Errorf("%s has the image %s already", t.ref, before)
		}
		back := t.command("set-image", before)
		if before == "" {
			back = fmt.Sprintf(`kubectl -n %s patch %s %s --type merge -p '{"spec":{"image":null}}'`, t.namespace, t.ref.Kind.Names[0], t.ref.Name)
		}
		return change{[]string{"image"}, args[0], fmt.Sprintf("spec.image was %s, is %s", cmp.Or(before, "not set"), args[0]), back}, nil
	})
}

func pinCommand(f *cli.ClusterFlags) *cobra.Command {
	var remove bool
	cmd := changeCommand(f, &cobra.Command{
		Use:   "pin KIND/NAME REVISION",
		Short: "Roll out a revision, and keep it until the pin is removed",
		Long: `Set spec.rollout.pinnedRevision: the pods of the revision are rolled out, whatever else
the spec contains. history lists the revisions. With --remove, remove the field: the rest
of the spec is rolled out.`,
		Example: `  # revision 3, until further notice
  kubectl platform pin webserver/shop 3

  # the spec is correct now
  kubectl platform pin webserver/shop --remove`,
		Args: cobra.RangeArgs(1, 2),
		ValidArgsFunction: func(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return completeRevisions(c, f, args[0])
			}
			return completeObjects(f)(c, args, prefix)
		},
	}, func(c *cobra.Command, t target, args []string) (change, error) {
		switch {
		case remove == (len(args) == 1):
			return change{}, errors.New("name a revision, or use --remove")
		case remove && t.state.PinnedRevision == nil:
			return change{}, fmt.Errorf("no revision of %s is pinned", t.ref)
		case remove:
			return change{[]string{"rollout", "pinnedRevision"}, nil, "the spec is rolled out, no revision is pinned", t.command("pin", strconv.FormatInt(*t.state.PinnedRevision, 10))}, nil
		}
		n, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil || n < 1 {
			return change{}, fmt.Errorf("%q is not the number of a revision: %s lists them", args[0], t.command("history"))
		}
		return t.pin(c, n)
	})
	cmd.Flags().BoolVar(&remove, "remove", false, "remove the pin")
	return cmd
}

func undoCommand(f *cli.ClusterFlags) *cobra.Command {
	var to int64
	cmd := changeCommand(f, &cobra.Command{
		Use:   "undo KIND/NAME",
		Short: "Return to the revision before the one that serves",
		Long: `Pin the latest revision before the one that serves that has not failed (pin). The rest of
the spec is not changed: correct it, and then remove the pin.`,
		Args: cobra.ExactArgs(1),
	}, func(c *cobra.Command, t target, _ []string) (change, error) {
		if to != 0 {
			return t.pin(c, to)
		}
		if err := t.rollsOut(); err != nil {
			return change{}, err
		}
		r := t.state.Revisions
		if r == nil || r.Current == 0 {
			return change{}, fmt.Errorf("%s has no revisions yet", t.ref)
		}
		if r.Failed > r.Current && t.state.PinnedRevision == nil {
			return change{}, fmt.Errorf("%s was rolled back from revision %d already, and serves revision %d: correct the spec, or select an earlier one with --to-revision", t.ref, r.Failed, r.Current)
		}
		h, err := t.History(c.Context(), t.namespace, t.ref)
		if err != nil {
			return change{}, cli.Reach(t.config, err)
		}
		for _, rev := range slices.Backward(h.Revisions) {
			if rev.Number < r.Current && !strings.Contains(strings.Join(rev.States, " "), "failed") {
				return t.pin(c, rev.Number)
			}
		}
		return change{}, fmt.Errorf("%s has no healthy revision before revision %d, which serves", t.ref, r.Current)
	})
	cmd.Flags().Int64Var(&to, "to-revision", 0, "return to this revision (default: the one before)")
	return cmd
}

func promoteCommand(f *cli.ClusterFlags) *cobra.Command {
	return changeCommand(f, &cobra.Command{
		Use:   "promote KIND/NAME",
		Short: "Roll out all pods of a revision whose first pods are held",
		Long:  `Set spec.rollout.promotedRevision to the revision in status.canary.`,
		Args:  cobra.ExactArgs(1),
	}, func(_ *cobra.Command, t target, _ []string) (change, error) {
		n, held, err := unstructured.NestedInt64(t.obj.Object, "status", "canary", "revision")
		if err != nil || !held {
			return change{}, fmt.Errorf("%s has no canary (status.canary)", t.ref)
		}
		return change{[]string{"rollout", "promotedRevision"}, n, fmt.Sprintf("all pods of revision %d are rolled out", n), t.command("undo")}, nil
	})
}

// pin returns the change that rolls out a revision, which must be kept.
func (t target) pin(c *cobra.Command, n int64) (change, error) {
	if err := t.rollsOut(); err != nil {
		return change{}, err
	}
	h, err := t.History(c.Context(), t.namespace, t.ref)
	if err != nil {
		return change{}, cli.Reach(t.config, err)
	}
	if err := h.Kept(n); err != nil {
		return change{}, err
	}
	done, back := fmt.Sprintf("revision %d is rolled out, and pinned", n), t.command("pin", "--remove")
	if p := t.state.PinnedRevision; p != nil {
		if *p == n {
			return change{}, fmt.Errorf("revision %d of %s is pinned already", n, t.ref)
		}
		done, back = fmt.Sprintf("%s instead of revision %d", done, *p), t.command("pin", strconv.FormatInt(*p, 10))
	}
	return change{[]string{"rollout", "pinnedRevision"}, n, done, back}, nil
}
