package command

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/platform-operator/platform-operator/e2e/cluster/config"
	"github.com/platform-operator/platform-operator/e2e/cluster/load"
)

func loadCommand() *cobra.Command {
	o := load.Options{}
	cmd := &cobra.Command{
		Use:   "load IMAGE (--binary PROGRAM [--entrypoint /NAME] | --from IMAGE | --debian RELEASE)",
		Short: "Make an image available to pods; prints its digest",
		Example: `  CGO_ENABLED=0 go build -o bin/manager ./cmd
  cluster load platform-operator:dev --binary bin/manager --entrypoint /manager
  cluster load example.com/team/app:1.0 --from nginx:1.27.4   what the registry has, by another name
  cluster load nginx:1.30 --debian sid                        laid out like the other nginx, of newer packages`,
		Args: cobra.ExactArgs(1),
		RunE: withConfig(func(cmd *cobra.Command, c config.Config, args []string) error {
			if useCurrentCluster(os.Getenv) {
				return errors.New("with CLUSTER=current, push the image to a registry your cluster pulls from: make image-push")
			}
			digest, err := load.Image(cmd.Context(), c, args[0], o, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), digest)
			return err
		}),
	}
	f := cmd.Flags()
	f.StringVar(&o.Binary, "binary", "", "statically linked program that becomes the whole image")
	f.StringVar(&o.Entrypoint, "entrypoint", "", "the program's path in the image (default / and its name)")
	f.StringVar(&o.From, "from", "", "image that the cluster's registry has")
	f.StringVar(&o.Debian, "debian", "", "release of Debian whose packages become an nginx or memcached image")
	cmd.MarkFlagsOneRequired("binary", "from", "debian")
	cmd.MarkFlagsMutuallyExclusive("binary", "from", "debian")
	cmd.MarkFlagsMutuallyExclusive("entrypoint", "from", "debian")
	return cmd
}
