package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func addonCommand() *cobra.Command {
	o := addonOptions{}
	var list strings.Builder
	for _, a := range addons() {
		fmt.Fprintf(&list, "  %-25s %s\n", a.name, a.what)
	}
	cmd := &cobra.Command{
		Use:   "addon NAME...",
		Short: "Add to the running cluster what others often have: " + strings.Join(addonNames(), ", "),
		Long: `Add to the running cluster what others often have, and wait until it can be
used. It is built at its first use; "up" and "down" know nothing of it, so a new
cluster is without. Doing it again changes nothing.

` + strings.TrimSuffix(list.String(), "\n"),
		Example: `  cluster addon metrics-server traefik
  cluster exec -- kubectl top pods -A
  cluster exec -- curl -H 'Host: shop.example.com' http://` + nodeIP(controlNode) + `/
  cluster addon --build-only traefik    builds without a cluster, for later`,
		Args:      cobra.MinimumNArgs(1),
		ValidArgs: addonNames(),
		RunE: ownClusterOnly(func(cmd *cobra.Command, c config, args []string) error {
			return addAddons(cmd.Context(), c, args, o, cmd.OutOrStdout())
		}),
	}
	f := cmd.Flags()
	f.BoolVar(&o.buildOnly, "build-only", false, "only fill the cache; needs no cluster, and not root")
	f.DurationVar(&o.timeout, "timeout", 2*time.Minute, "how long each may take to be usable (building has no limit)")
	return cmd
}
