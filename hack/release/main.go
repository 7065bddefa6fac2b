// Command release writes the files of a release that no other tool writes in the same
// way twice: images and the chart as OCI layouts, archives of the plugin, its krew
// manifest, release notes and checksums. It also pushes the layouts to a registry.
// See release.sh.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release describes what is released, and the folders that it is read from and
// written to.
type release struct {
	version, replaces, registry, revision, source string
	// created is the time of the commit, since no file contains the time of the build.
	created time.Time
	// programs contains platform-operator-OS-ARCH and kubectl-platform-OS-ARCH, root the licences and the changelog.
	programs, root, dist string
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("usage: release image|olm|pack|push [FLAGS]")
	}
	var r release
	var created int64
	f := flag.NewFlagSet(args[0], flag.ContinueOnError)
	f.StringVar(&r.version, "version", "", "version, without a leading v")
	f.StringVar(&r.replaces, "replaces", "", "version that OLM upgrades from; empty: none")
	f.StringVar(&r.registry, "registry", "", "registry and path of the image and the chart")
	f.StringVar(&r.revision, "revision", "", "commit")
	f.StringVar(&r.source, "source", "", "address of the repository")
	f.Int64Var(&created, "created", 0, "time of the commit, in seconds since 1970")
	f.StringVar(&r.programs, "programs", "", "folder with the programs")
	f.StringVar(&r.root, "root", ".", "folder of the repository")
	f.StringVar(&r.dist, "dist", "dist", "folder that is written, or pushed")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	r.created = time.Unix(created, 0).UTC()
	switch args[0] {
	case "image":
		digest, err := r.writeImage()
		if err == nil {
			fmt.Println(digest)
		}
		return err
	case "olm":
		return r.writeOLM()
	case "pack":
		return r.pack()
	case "push":
		return r.push(ctx)
	}
	return fmt.Errorf("unknown subcommand %q", args[0])
}

// pack writes what is made from files that exist already, and the checksums of all.
func (r release) pack() error {
	for _, step := range []func() error{r.writeChart, r.writeOLM, r.writePlugin, r.writeNotes, r.writeSums} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// encode returns deterministic JSON: Go sorts the keys of maps.
func encode(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // only maps and strings are encoded
	}
	return raw
}
