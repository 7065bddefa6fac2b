package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/platform-operator/platform-operator/pkg/cli"
)

// openLog opens the log of a container. Tests replace it.
var openLog = func(ctx context.Context, cl cluster, pod string, o *corev1.PodLogOptions) (io.ReadCloser, error) {
	c, err := corev1client.NewForConfig(cl.config)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", cl.config.Host, err)
	}
	return c.Pods(cl.namespace).GetLogs(pod, o).Stream(ctx)
}

func logsCommand(f *cli.ClusterFlags) *cobra.Command {
	var o corev1.PodLogOptions
	var tail int64
	cmd := &cobra.Command{
		Use:   "logs KIND/NAME",
		Short: "Print the logs of the pods of an object",
		Long: `Print the logs of all pods of an object. If there are several, each line begins with the
name of its pod. Pods that are created later are not followed.`,
		Args: apart(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			if tail >= 0 {
				o.TailLines = &tail
			}
			cl, ref, err := named(f, args...)
			if err != nil {
				return err
			}
			pods, err := cl.Pods(c.Context(), cl.namespace, ref)
			if err != nil {
				return cli.Reach(cl.config, err)
			}
			if len(pods) == 0 {
				return fmt.Errorf("%s has no pods: kubectl platform -n %s status %s shows why", ref, cl.namespace, ref)
			}
			return cl.logs(c.Context(), c.OutOrStdout(), pods, o)
		},
		ValidArgsFunction: completeObjects(f),
	}
	cmd.Flags().BoolVarP(&o.Follow, "follow", "f", false, "print new lines until Ctrl-C")
	cmd.Flags().BoolVarP(&o.Previous, "previous", "p", false, "the log of the previous container of each pod")
	cmd.Flags().StringVarP(&o.Container, "container", "c", "", "container (default: the first one)")
	cmd.Flags().BoolVar(&o.Timestamps, "timestamps", false, "begin each line with its time")
	cmd.Flags().Int64Var(&tail, "tail", -1, "the last lines of each pod (default: all)")
	return cmd
}

// logs prints the logs of pods: one after the other or, if they are followed, together.
func (cl cluster) logs(ctx context.Context, out io.Writer, pods []*corev1.Pod, o corev1.PodLogOptions) error {
	var mu sync.Mutex
	one := func(pod *corev1.Pod) error {
		prefix := ""
		if len(pods) > 1 {
			prefix = pod.Name + ": "
		}
		of := o
		if of.Container == "" && len(pod.Spec.Containers) > 0 {
			of.Container = pod.Spec.Containers[0].Name
		}
		log, err := openLog(ctx, cl, pod.Name, &of)
		if err != nil {
			return fmt.Errorf("reading the log of pod %s: %w", pod.Name, err)
		}
		defer func() { _ = log.Close() }()
		for r := bufio.NewReader(log); ; {
			line, err := r.ReadString('\n')
			if line != "" {
				mu.Lock()
				fmt.Fprintln(out, prefix+strings.TrimSuffix(line, "\n"))
				mu.Unlock()
			}
			if errors.Is(err, io.EOF) || ctx.Err() != nil {
				return nil
			}
			if err != nil {
				return fmt.Errorf("reading the log of pod %s: %w", pod.Name, err)
			}
		}
	}
	errs := make([]error, len(pods))
	var wg sync.WaitGroup
	for i, pod := range pods {
		if !o.Follow {
			errs[i] = one(pod)
			continue
		}
		wg.Go(func() { errs[i] = one(pod) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func eventsCommand(f *cli.ClusterFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "events KIND/NAME",
		Short: "List the events of an object, its children and its pods",
		Args:  apart(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			cl, ref, err := named(f, args...)
			if err != nil {
				return err
			}
			events, err := cl.Events(c.Context(), cl.namespace, ref)
			if err != nil {
				return cli.Reach(cl.config, err)
			}
			if len(events) == 0 {
				fmt.Fprintf(c.OutOrStdout(), "There are no events of %s. Kubernetes keeps them for an hour.\n", ref)
				return nil
			}
			return printer(c.OutOrStdout()).Events(c.OutOrStdout(), events)
		},
		ValidArgsFunction: completeObjects(f),
	}
}
