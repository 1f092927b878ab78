package main

import (
	"debug/buildinfo"
	"os"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// bill is the bill of materials of a program: what its own build information says, and nothing else. No time and no
// serial number, so equal programs have equal bills.
func bill(version, program string) (*cdx.BOM, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	top := cdx.Component{BOMRef: "troupe", Type: cdx.ComponentTypeApplication, Name: "troupe", Version: version,
		PackageURL: "pkg:golang/" + info.Main.Path + "@" + version}
	var properties []cdx.Property
	for _, s := range info.Settings {
		properties = append(properties, cdx.Property{Name: "go:build:" + s.Key, Value: s.Value})
	}
	top.Properties = &properties
	release := strings.TrimPrefix(info.GoVersion, "go")
	components := []cdx.Component{{BOMRef: "std", Type: cdx.ComponentTypeLibrary, Name: "std", Version: release,
		PackageURL: "pkg:golang/std@" + release}}
	refs := []string{"std"}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		url := "pkg:golang/" + m.Path + "@" + m.Version
		components = append(components, cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version,
			PackageURL: url, Properties: &[]cdx.Property{{Name: "go:sum", Value: m.Sum}}})
		refs = append(refs, url)
	}
	b := cdx.NewBOM()
	b.Metadata = &cdx.Metadata{Component: &top}
	b.Components = &components
	b.Dependencies = &[]cdx.Dependency{{Ref: "troupe", Dependencies: &refs}}
	return b, nil
}

// writeBill writes the bill of materials of a program as CycloneDX 1.6, in JSON.
func writeBill(file, version, program string) error {
	b, err := bill(version, program)
	if err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	err = cdx.NewBOMEncoder(f, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(b, cdx.SpecVersion1_6)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}
