package model

import (
	"fmt"
	"strings"
)

// Script returns a chain as a kubectl script. Operations that kubectl cannot do,
// such as killing the operator at its second write from now on, are comments.
func Script(c Chain) string {
	k, err := kindNamed(c.kind)
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "KIND=%s NAME=%s WORKLOAD=%s SERVICE=service/%s NETWORKPOLICY=networkpolicy/%s\n", k.Name, objectName, k.Workload, k.Service, k.Policy)
	fmt.Fprintf(&b, "HORIZONTALPODAUTOSCALER=hpa/%[1]s PODDISRUPTIONBUDGET=pdb/%[1]s INGRESS=ingress/%[1]s\n", objectName)
	fmt.Fprintf(&b, "cat > object.yaml <<'EOF'\napiVersion: %s\nkind: %s\nmetadata: {name: %s}\nspec: %s\nEOF\n", k.GVK.GroupVersion(), k.GVK.Kind, objectName, k.Base)
	created := false
	for _, s := range c.steps {
		o := opNamed(s.op)
		line := strings.NewReplacer("$IMAGE", k.Image, "$REPLICAS", k.Replicas, "$CONTAINER", k.Container, "$COUNT", "2026-01-01T00:00:00Z").Replace(o.script)
		if strings.HasPrefix(line, "kubectl patch $KIND") && !created {
			line = "# in object.yaml already: " + line
		}
		created = created || s.op == "create"
		b.WriteString(line)
		switch s.pace {
		case paceNow:
			b.WriteString("   # and at once:")
		case paceIdle:
			b.WriteString("   # and when the operator has written it:")
		case paceSettle:
			b.WriteString("; sleep 10")
		}
		b.WriteString("\n")
	}
	return b.String()
}
