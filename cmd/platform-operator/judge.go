package main

import (
	"fmt"
	"net"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/platform-operator/platform-operator/pkg/httplimit"
	"github.com/platform-operator/platform-operator/pkg/judge"
	"github.com/platform-operator/platform-operator/pkg/nginxconf"
)

// judgeCommand is the command of a container of the pods of a canary.
func judgeCommand() *cobra.Command {
	var files judge.Files
	var scrape bool
	cmd := &cobra.Command{
		Use:    "judge",
		Short:  "Count the errors of a canary, in its pods",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			debug.SetGCPercent(20) // there is little garbage, and memory in every pod
			if scrape {
				return judge.Run(c.Context(), judge.NewScraper(3*time.Second), files, 5*time.Second)
			}
			log, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: judge.Port})
			if err != nil {
				return fmt.Errorf("receiving the log: %w", err)
			}
			defer log.Close()
			counts := &judge.Counter{}
			go counts.Receive(log)
			metrics, err := httplimit.Listen(c.Context(), fmt.Sprintf(":%d", nginxconf.JudgePort), 16)
			if err != nil {
				return fmt.Errorf("serving the counts: %w", err)
			}
			server := httplimit.NewServer(counts)
			defer server.Close()
			go func() { _ = server.Serve(metrics) }() // it ends with the program
			return judge.Run(c.Context(), counts, files, time.Second)
		},
	}
	cmd.Flags().BoolVar(&scrape, "scrape", false, "count by the metrics of the application, instead of a log")
	cmd.Flags().StringVar(&files.Settings, "settings", "/etc/judge", "folder with the settings")
	cmd.Flags().StringVar(&files.Verdict, "verdict", judge.VerdictFolder+"/verdict", "file that keeps the verdict")
	cmd.Flags().StringVar(&files.Message, "message", "/dev/termination-log", "file of the termination message")
	return cmd
}
