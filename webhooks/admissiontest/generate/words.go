package generate

import "strings"

// words are the values of strings, if the schema allows them: few names, so that
// references often find their target, and values that are often handled
// incorrectly.
func words() []string {
	return []string{
		"a", "b", "web", "data", "x-1", "A", "1", "0", "a.b", "example.com", "*.example.com", "shop.example.com", "a_b", "A.b-C_9",
		"example.com/a", "EXAMPLE.com/b", "kubernetes.io/hostname", "topology.kubernetes.io/zone", "platform-operator.io/a", "gateway.networking.k8s.io/a",
		"app", "webserver", "pod-template-hash", "app.kubernetes.io/name",
		"nginx", "nginx:1.27", "memcached:1.6", "registry.example:5000/a/b:c", "nginx@sha256:" + strings.Repeat("0a", 32), "a/../b", "NGINX", "nginx:", "a:b:c",
		"/", "/a", "/a/b", "/a//b", "/a/../b", "/a/", "/etc", "/etc/nginx", "/etc/nginx/conf.d", "/etc/nginx/conf.d/a", "/usr/share/nginx/html", "/tmp", "/var/cache/nginx", "/dev/null", "/proc",
		"a/b", "../a", "..a", "a..", "..", ".", "...", "./a", "a/..", "a//b", "index.html", ".a",
		"", " ", "  a  ", "a b", "a\nb", "a\x00b", "\t", "é", "日本", "🦄", "$(A)", "$(", "$$", "`", "\"", "\\", "%", "100%", "1%", "25%", "0%", "101%", "-1", "+1", "1e3", "0x10", "01",
		"http", "https", "http-web", "a-b-c", "1-a", "kubernetes.io/h2c", "system-node-critical", "metadata.name", "metadata.labels['a']", "metadata.annotations['a/b/c']", "metadata.uid", "status.podIPs", "0.5%", "12.3%", "30s", "1h5m", "2026-01-01T00:00:00.5+01:00",
		"10.0.0.0/8", "10.0.0.1/8", "10.1.0.0/16", "0.0.0.0/0", "::/0", "fd00::/8", "::ffff:10.0.0.0/104", "010.0.0.0/8", "10.0.0.0", "999",
		"server_name a;", "location / { return 200 'a'; }", "if ($a) {", "}", "listen 80;", "a 'b", "# a", "return 301 https://$host$request_uri;", "include /etc/passwd;",
		"example.com/gpu", "cpu", "memory", "true", "false", "null", "~", "2026-01-01T00:00:00Z",
		strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a", 253), strings.Repeat("a.", 126) + "a", strings.Repeat("a", 317),
		strings.Repeat("a", 253) + "/" + strings.Repeat("b", 63),
	}
}

// keys are the keys of maps: labels, resources, files.
func keys() []string {
	return []string{
		"a", "b", "example.com/a", "EXAMPLE.com/b", "app", "webserver_cr", "memcached_cr", "app.kubernetes.io/managed-by", "app.kubernetes.io/name", "kubernetes.io/hostname",
		"cpu", "memory", "ephemeral-storage", "cpu", "memory", "example.com/gpu", "requests.cpu", "hugepages-2Mi", "storage", "pods",
		"index.html", "a.txt", "A_b-c.d", "..a", "..", ".", "a/b", "", " ", "é", strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a", 253), strings.Repeat("b", 254),
		"service.beta.kubernetes.io/a", "container.apparmor.security.beta.kubernetes.io/a", "nginx.ingress.kubernetes.io/a", "kubectl.kubernetes.io/restartedAt",
	}
}

func quantities() []any {
	return []any{
		"100m", "1", "2", 1, 0, "0", "64Mi", "1Gi", "128Mi", "500Mi", "1Ti", "2Mi", "1.5Gi", "0.5", ".5", "1e3", "1E3", "1E", "1n", "1u", "1m", "0.1m", "-1", "-1Gi", "+1",
		"1e100", "1e-100", "9223372036854775807", "9223372036854775808", "9E", "16E", "8Ei", "7Ei", "1e18", "99999999999999999999999999", "0.0000000001", "1.00000000000000001", 1 << 40, "3M", "1048576", "1048577", "01", "00",
	}
}
