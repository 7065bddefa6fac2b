package command

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/platform-operator/platform-operator/e2e/cluster/addon"
	"github.com/platform-operator/platform-operator/e2e/cluster/config"
)

func addonCommand() *cobra.Command {
	o := addon.Options{}
	var list strings.Builder
	for _, a := range addon.All() {
		fmt.Fprintf(&list, "  %-25s %s\n", a.Name, a.What)
	}
	cmd := &cobra.Command{
		Use:   "addon NAME...",
		Short: "Add to the running cluster what others often have: " + strings.Join(addon.Names(), ", "),
		Long: `Add to the running cluster what others often have, and wait until it can be
used. It is built at its first use; "up" and "down" know nothing of it, so a new
cluster is without. Doing it again changes nothing.

` + strings.TrimSuffix(list.String(), "\n"),
		Example: `  cluster addon metrics-server traefik
  cluster exec -- kubectl top pods -A
  cluster exec -- curl -H 'Host: shop.example.com' http://` + config.NodeIP(config.ControlNode) + `/
  cluster addon --build-only traefik    builds without a cluster, for later`,
		Args:      cobra.MinimumNArgs(1),
		ValidArgs: addon.Names(),
		RunE: ownClusterOnly(func(cmd *cobra.Command, c config.Config, args []string) error {
			return addon.Add(cmd.Context(), c, args, o, cmd.OutOrStdout())
		}),
	}
	f := cmd.Flags()
	f.BoolVar(&o.BuildOnly, "build-only", false, "only fill the cache; needs no cluster, and not root")
	f.DurationVar(&o.Timeout, "timeout", 2*time.Minute, "how long each may take to be usable (building has no limit)")
	return cmd
}
