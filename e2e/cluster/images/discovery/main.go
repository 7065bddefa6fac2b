// Command discovery tells Prometheus which endpoints the Services of a namespace have,
// in the format of http_sd_configs and with the labels of kubernetes_sd_configs with
// role endpointslice: Debian's Prometheus is built without the latter.
//
// GET /?namespace=NAMESPACE, on port 9099 of localhost.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"time"
)

const (
	account = "/var/run/secrets/kubernetes.io/serviceaccount/"
	meta    = "__meta_kubernetes_"
)

func main() {
	ca, err := os.ReadFile(account + "ca.crt")
	if err != nil {
		log.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(ca)
	a := &api{&http.Client{
		Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}},
	}}
	server := &http.Server{Addr: "127.0.0.1:9099", ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(a.serve)}
	log.Fatal(server.ListenAndServe())
}

// group is a target in the format of http_sd_configs.
type group struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

func (a *api) serve(w http.ResponseWriter, r *http.Request) {
	targets, err := a.targets(r.Context(), r.URL.Query().Get("namespace"))
	if err != nil {
		log.Print(err)
		http.Error(w, err.Error(), http.StatusBadGateway) // Prometheus keeps the previous targets
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(targets)
}

type metadata struct {
	Name, Namespace string
	Labels          map[string]string
}

type slice struct {
	Metadata metadata
	Ports    []struct {
		Name string
		Port int
	}
	Endpoints []struct {
		Addresses []string
		TargetRef struct{ Kind, Name string }
	}
}

type service struct{ Metadata metadata }

type pod struct {
	Metadata metadata
	Spec     struct {
		Containers []struct {
			Name  string
			Ports []struct{ ContainerPort int }
		}
	}
	Status struct{ Phase string }
}

// targets returns each port of each endpoint.
func (a *api) targets(ctx context.Context, namespace string) ([]group, error) {
	in := "/namespaces/" + url.PathEscape(namespace) + "/"
	var slices struct{ Items []slice }
	var services struct{ Items []service }
	var pods struct{ Items []pod }
	for path, list := range map[string]any{
		"/apis/discovery.k8s.io/v1" + in + "endpointslices": &slices, "/api/v1" + in + "services": &services, "/api/v1" + in + "pods": &pods,
	} {
		if err := a.get(ctx, path, list); err != nil {
			return nil, err
		}
	}
	serviceOf, podOf := map[string]service{}, map[string]pod{}
	for _, s := range services.Items {
		serviceOf[s.Metadata.Namespace+"/"+s.Metadata.Name] = s
	}
	for _, p := range pods.Items {
		podOf[p.Metadata.Namespace+"/"+p.Metadata.Name] = p
	}
	all := []group{}
	for _, s := range slices.Items {
		ns := s.Metadata.Namespace
		from := serviceOf[ns+"/"+s.Metadata.Labels["kubernetes.io/service-name"]]
		for _, e := range s.Endpoints {
			for _, p := range s.Ports {
				labels := map[string]string{
					meta + "namespace": ns, meta + "service_name": from.Metadata.Name, meta + "endpointslice_port_name": p.Name,
					meta + "endpointslice_address_target_kind": e.TargetRef.Kind, meta + "endpointslice_address_target_name": e.TargetRef.Name,
				}
				for name, value := range from.Metadata.Labels {
					name = notInLabels.ReplaceAllString(name, "_")
					labels[meta+"service_label_"+name], labels[meta+"service_labelpresent_"+name] = value, "true"
				}
				if e.TargetRef.Kind == "Pod" {
					addPod(labels, podOf[ns+"/"+e.TargetRef.Name], p.Port)
				}
				for _, address := range e.Addresses {
					all = append(all, group{[]string{net.JoinHostPort(address, strconv.Itoa(p.Port))}, labels})
				}
			}
		}
	}
	return all, nil
}

var notInLabels = regexp.MustCompile(`[^a-zA-Z0-9_]`)

// addPod adds the labels of the pod and of its container with the port.
func addPod(labels map[string]string, p pod, port int) {
	labels[meta+"pod_name"], labels[meta+"pod_phase"] = p.Metadata.Name, p.Status.Phase
	for _, c := range p.Spec.Containers {
		for _, has := range c.Ports {
			if has.ContainerPort == port {
				labels[meta+"pod_container_name"] = c.Name
			}
		}
	}
}

// api is a client of the API server.
type api struct{ *http.Client }

func (a *api) get(ctx context.Context, path string, into any) error {
	// The token is renewed while the pod runs. resourceVersion=0 answers from the
	// cache of the API server.
	token, err := os.ReadFile(account + "token")
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://kubernetes.default.svc"+path+"?resourceVersion=0", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+string(token))
	res, err := a.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", path, res.Status)
	}
	return json.NewDecoder(res.Body).Decode(into)
}
