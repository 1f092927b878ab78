// Package kubernetes has manifests and no program; its tests are a module of their own, so that troupe itself does
// not depend on the types of Kubernetes.
package kubernetes

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// decode reads one object strictly into the type that its apiVersion and kind name.
func decode(text []byte) (any, error) {
	var head struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal(text, &head); err != nil {
		return nil, err
	}
	kinds := map[string]any{"v1/Service": &corev1.Service{}, "apps/v1/StatefulSet": &appsv1.StatefulSet{},
		"policy/v1/PodDisruptionBudget": &policyv1.PodDisruptionBudget{}, "batch/v1/Job": &batchv1.Job{},
		"networking.k8s.io/v1/NetworkPolicy": &networkingv1.NetworkPolicy{}}
	o := kinds[head.APIVersion+"/"+head.Kind]
	if o == nil {
		return nil, fmt.Errorf("%s %s: no such kind here", head.APIVersion, head.Kind)
	}
	return o, yaml.UnmarshalStrict(text, o)
}

// objects decodes all objects of a manifest.
func objects(text []byte) ([]any, error) {
	var out []any
	for i, part := range bytes.Split(text, []byte("\n---\n")) {
		o, err := decode(part)
		if err != nil {
			return nil, fmt.Errorf("object %d: %w", i+1, err)
		}
		out = append(out, o)
	}
	return out, nil
}

// TestStrict: every object has only fields that its type has, names of volumes, claims and ports that exist, and
// selectors that find its pods.
func TestStrict(t *testing.T) {
	want := map[string]int{"one-node.yaml": 2, "three-nodes.yaml": 5, "experiment.yaml": 1}
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) != len(want) {
		t.Fatalf("%v: %v", files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all, err := objects(text)
		if err != nil || len(all) != want[name] {
			t.Errorf("%s: %d objects, expected %d: %v", name, len(all), want[name], err)
			continue
		}
		var ports []string
		for _, o := range all {
			switch o := o.(type) {
			case *appsv1.StatefulSet:
				labels := o.Spec.Template.Labels
				for k, v := range o.Spec.Selector.MatchLabels {
					if labels[k] != v {
						t.Errorf("%s: the selector asks for %s=%s, pods have %v", name, k, v, labels)
					}
				}
				claims := make([]string, 0, 1)
				for _, c := range o.Spec.VolumeClaimTemplates {
					claims = append(claims, c.Name)
				}
				ports = checkPod(t, name, o.Spec.Template.Spec, claims)
			case *batchv1.Job:
				checkPod(t, name, o.Spec.Template.Spec, nil)
			}
		}
		for _, o := range all {
			if s, ok := o.(*corev1.Service); ok {
				for _, p := range s.Spec.Ports {
					if !strings.Contains(strings.Join(ports, " ")+" ", p.TargetPort.StrVal+" ") {
						t.Errorf("%s: service %s sends to port %s, pods have %v", name, s.Name, p.TargetPort.StrVal, ports)
					}
				}
			}
		}
	}
}

// checkPod returns the names of the ports of a pod whose mounts and probes must refer to what there is.
func checkPod(t *testing.T, file string, p corev1.PodSpec, claims []string) (ports []string) {
	t.Helper()
	volumes := strings.Join(claims, " ") + " "
	for _, v := range p.Volumes {
		volumes += v.Name + " "
		if v.Secret != nil && *v.Secret.DefaultMode != 0o440 || v.Projected != nil && *v.Projected.DefaultMode != 0o440 {
			t.Errorf("%s: others can read the secrets in volume %s", file, v.Name)
		}
	}
	for _, c := range p.Containers {
		for _, m := range c.VolumeMounts {
			if !strings.Contains(" "+volumes, " "+m.Name+" ") {
				t.Errorf("%s: %s mounts %q, there are %s", file, c.Name, m.Name, volumes)
			}
		}
		for _, p := range c.Ports {
			ports = append(ports, p.Name)
		}
		for _, probe := range []*corev1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
			if probe != nil && !strings.Contains(strings.Join(ports, " ")+" ", probe.HTTPGet.Port.StrVal+" ") {
				t.Errorf("%s: a probe asks at port %s, there are %v", file, probe.HTTPGet.Port.StrVal, ports)
			}
		}
	}
	return ports
}

// TestMisspelt: a field that the type does not have is found.
func TestMisspelt(t *testing.T) {
	text, err := os.ReadFile("one-node.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{{"readinessProbe", "readynessProbe"}, {"terminationGracePeriodSeconds", "terminationGraceSeconds"},
		{"volumeClaimTemplates", "volumeClaims"}} {
		_, err := objects(bytes.Replace(text, []byte(c[0]), []byte(c[1]), 1))
		if err == nil || !strings.Contains(err.Error(), "unknown field") {
			t.Errorf("%s: %v", c[1], err)
		}
	}
}
