package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// finding is a defect that reviews of pods and traffic found.
type finding struct {
	number, defect string
	// tests show that it is repaired: functions, and chains of the model ("kind: operations").
	tests []string
	// why is the reason why there is no test.
	why string
}

// findings are those of the pages about pods and traffic (P), about nodes and long requests
// (N), and about public reports of similar operators (R).
var findings = []finding{
	{number: "P1", defect: "a changed port refuses all requests, also after the rollback and under a pin", tests: []string{
		"TestService_RoutesToThePortsOfEachPod", "demoapplication: create ports-other! image-crash", "demoapplication: create ports-other pin-1", "TestCampaignTraffic",
	}},
	{number: "P2", defect: "a draining pod breaks HTTP/2", tests: []string{"TestSite_Text", "TestCampaignTraffic"}},
	{number: "P3", defect: "a pod drains for ever after a liveness failure", tests: []string{"TestMarkDraining_RemovesTheMark", "TestCampaignTraffic"}},
	{number: "P4", defect: "a configuration is judged before its third test", tests: []string{"TestDiagnose_BlamesTheRevisionOnlyWithEvidence", "webserver: create config-late"}},
	{number: "P5", defect: "a ready pod that was restarted is a crash", tests: []string{"TestDiagnose_BlamesTheRevisionOnlyWithEvidence", "webserver: create scale-3 nodes-full-1! image-late"}},
	{number: "P6", defect: "a version that runs for a moment is healthy", tests: []string{"TestReport_RecordsARevisionAsHealthyAfterAWhile", "TestChain_AVersionThatRanForAMoment"}},
	{number: "P7", defect: "quotas, webhooks and service accounts are blamed on the revision", tests: []string{"TestOfPods", "TestDecide_DoesNotRollBackUnschedulablePods", "webserver: create webhook-down image-2", "demoapplication: create scale-3 quota-limits! image-2 quota-off"}},
	{number: "P8", defect: "restored objects are stuck", tests: []string{"TestReconciler_AdoptsARestoredBackup", "webserver: create image-2 restore pod-restarts"}},
	{number: "P9", defect: "autoscaled objects have no PodDisruptionBudget", tests: []string{"TestPodDisruptionBudget_Autoscaled", "demoapplication: autoscale create"}},
	{number: "P10", defect: "WebServers do not listen on IPv6", tests: []string{"TestSite_ListensOnIPv6", "TestListensOnIPv6"}},
	{number: "P11", defect: "evicted pods are a crash", tests: []string{"TestDiagnose_BlamesTheRevisionOnlyWithEvidence", "webserver: create scale-3 nodes-full-1! image-2 pod-evicted"}},
	{number: "P12", defect: "an autoscaler that cannot work is silent", tests: []string{"TestReport_AutoscalerThatCannotScale", "webserver: autoscale create metrics-lost"}},
	{number: "P13", defect: "clients that change different fields in turn are repaired without a limit", tests: []string{"TestApplier_CountsRepairsOfAllFieldsOfAChild"}},
	{number: "P14", defect: "a copy of a snapshot is deleted", tests: []string{"TestSnapshots_KeepReferencedOnes"}},
	{number: "P15", defect: "the order of variables is not repaired", tests: []string{"TestCompare"}},
	{number: "P16", defect: "a healthy revision fails because its surroundings fail", tests: []string{"TestPolicies_TheFirstThatAppliesDecides", "webserver: create outage"}},
	{number: "P17", defect: "scaling starts a rollout that is held", tests: []string{"TestShared_ScalingStartsNoRolloutThatWaits"}},

	{number: "N1", defect: "reboots are failed tests of a configuration", tests: []string{"TestDiagnose_BlamesTheRevisionOnlyWithEvidence", "webserver: create nodes-reboot scale-3 nodes-reboot"}},
	{number: "N2", defect: "a lost node rolls a good change back", tests: []string{"TestDecision_DiagnoseWaitsForVolumesAndTheNetwork", "TestCampaignCauses", "demoapplication: create scale-3 image-2! node-lost image-3 node-back"}},
	{number: "N3", defect: "a cache that grew and shrank serves old values without a warning", tests: []string{"TestWarnUpdate_FewerNodes"}},
	{number: "N4", defect: "Exposed does not look at who is served", tests: []string{
		"TestExposed_ReportsWhetherHostsAreAccepted", "TestExposed_OlderClaim", "TestExposed_CreatesAnIngressOfAnotherClassAgain", "TestReader_ChecksCertificateAndKey",
	}},
	{number: "N5", defect: "that all pods are on one node is not reported", tests: []string{"TestNodes_Only", "TestDeployment_RunsOnDifferentNodes"}},
	{number: "N6", defect: "pods stay on a lost node for minutes, which is not named", tests: []string{"TestLeaveLostNodes", "TestDiagnose_BlamesTheRevisionOnlyWithEvidence"}},
	{number: "N7", defect: "draining takes five seconds, whatever balances the load", tests: []string{"TestDrain", "TestValues_RefusedByTheOperatorAreRefusedByTheChart"}},
	{number: "N8", defect: "that long responses are cut is not documented", why: "it is, for each kind; make campaign-traffic has downloads and WebSockets"},
	{number: "N9", defect: "a paused object that was rolled back does not name the fields that wait", tests: []string{"TestReconciler_ObservesPausedObjectsWithoutWrites"}},
	{number: "N10", defect: "maxReplicas that is lowered during a rollout leaves fewer pods available", why: "Kubernetes shrinks both ReplicaSets in proportion; Available and Ready report it"},
	{number: "N11", defect: "an ImmortalContainer does not quote the exit code, and shows an image that does not run", tests: []string{"TestImmortalContainer_ReportsConditions", "TestReport_ImageIsTheOneThatRuns"}},

	{number: "R01", defect: "see P1", tests: []string{"TestService_RoutesToThePortsOfEachPod"}},
	{number: "R02", defect: "the resources of the exporter cannot be set", tests: []string{"TestExporterResources"}},
	{number: "R02c, R25", defect: "quotas and LimitRanges are blamed on the revision", tests: []string{"TestOfPods", "webserver: create limit-range image-2"}},
	{number: "R03", defect: "see P10", tests: []string{"TestSite_ListensOnIPv6"}},
	{number: "R04", defect: "see P15", tests: []string{"TestCompare"}},
	{number: "R05, R17", defect: "rollouts wait for ever by construction", tests: []string{"TestJudge_Warnings"}},
	{number: "R06", defect: "a field of another client makes the next type invalid", tests: []string{"TestService_RemovesAdditionsThatLoseRequests"}},
	{number: "R07b", defect: "a healthy revision fails because a file that it includes no longer exists", tests: []string{"webserver: create outage"}},
	{number: "R08", defect: "kubectl rollout pause is left on", tests: []string{"TestDeployment_StatesThatItIsNotPaused"}},
	{number: "R09", defect: "conflicts after --cascade=orphan", tests: []string{"TestReconciler_AdoptsARestoredBackup"}},
	{number: "R10", defect: "render refuses ConfigMaps and lists", tests: []string{"TestRender_SkipsWhatHasNoChildren"}},
	{number: "R11", defect: "an image that runs as root is refused by the kubelet", tests: []string{"TestDiagnose_NamesTheMissingReference"}},
	{number: "R13", defect: "kubectl apply cannot store much content", why: "a limit of kubectl, which docs/api/webserver.md names with its remedy"},
	{number: "R14, R16", defect: "directives outside of the server block, and listen options", tests: []string{"TestSurroundings_Conflicts", "TestSources_LeaveTheFolderToFilesOfTheUser"}},
	{number: "R18, R37", defect: "a quota does not say what requests less", tests: []string{"TestAdvice_NamesWhatRequestsLess"}},
	{number: "R19", defect: "an image without a shell loses requests", tests: []string{"TestHasShell", "TestMarkDraining"}},
	{number: "R20", defect: "a deleted namespace is stuck", tests: []string{"TestReleaseIfDeleted_OfADeletedNamespace"}},
	{number: "R21", defect: "the item size of a cache cannot be set", why: "a wish: unknown fields are refused, so that no word is lost"},
	{number: "R22", defect: "the log of a container that exits at once is shown late", tests: []string{"TestDiagnose_NamesTheCause", "TestCampaignCauses"}},
	{number: "R23", defect: "an HTTP probe is redirected to https", why: "only an event of the kubelet shows it, which the plugin quotes; docs/api/common.md says which applications it concerns"},
	{number: "R24", defect: "TCP and UDP on one port", tests: []string{"TestDemoApplication_OnePortWithTwoProtocols"}},
	{number: "R26", defect: "see P6", tests: []string{"TestReport_RecordsARevisionAsHealthyAfterAWhile", "TestCampaignCauses"}},
	{number: "R28", defect: "variables of nginx are eaten by a shell", tests: []string{"TestSurroundings_Conflicts"}},
	{number: "R29", defect: "rollback without a history", tests: []string{"TestDecide_BoundsTheHistory", "webserver: create history-0 image-2 image-crash"}},
	{number: "R31", defect: "emptyDir keeps the cluster autoscaler from removing nodes", tests: []string{"TestCustomize"}},
	{number: "R32", defect: "kustomize does not know references and images", tests: []string{"TestKustomize_ChangesEveryReference"}},
	{number: "R35, R14b, R36", defect: "a test that cannot start is a rejected configuration", tests: []string{"TestDiagnose_BlamesTheRevisionOnlyWithEvidence", "TestSources_LeaveTheFolderToFilesOfTheUser"}},
	{number: "R38", defect: "Argo CD shows Healthy at once", tests: []string{"TestHealth_OfEveryKind", "TestHealth_OfEveryState"}},
	{number: "R39", defect: "autoscaling with an exporter without requests", tests: []string{"TestExporterResources"}},
}

// TestFindings_HaveTestsThatExist checks that each finding has a test, or a reason.
func TestFindings_HaveTestsThatExist(t *testing.T) {
	t.Parallel()
	var sources strings.Builder
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") && filepath.Dir(path) != "../pkg/testkit/model/testdata" {
			return err
		}
		source, err := os.ReadFile(path) //nolint:gosec // files of this repository
		sources.WriteString("\n" + string(source))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	function := regexp.MustCompile(`^Test\w+$`)
	for _, f := range findings {
		if (len(f.tests) > 0) == (f.why != "") {
			t.Errorf("%s has tests and a reason, or neither", f.number)
		}
		for _, test := range f.tests {
			want := "\n" + test + "\n" // a chain
			if function.MatchString(test) {
				want = "\nfunc " + test + "("
			}
			if !strings.Contains(sources.String(), want) {
				t.Errorf("%s: there is no %s", f.number, test)
			}
		}
	}
}
