package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// finding is a defect that reviews found.
type finding struct {
	number, defect string
	// tests show that it is repaired: functions, and chains of the model ("kind: operations").
	tests []string
	// why is the reason why there is no test.
	why string
}

// findings are those of the pages about pods and traffic (P), about nodes and long requests
// (N), about public reports of similar operators (R), about operations (O), about upgrades
// between real versions (F), and about attacks (S).
var findings = []finding{
	{number: "P1", defect: "a changed port refuses all requests, also after the rollback and under a pin", tests: []string{
		"TestService_RoutesToThePortsOfEachPod", "demoapplication: create ports-other! image-crash", "demoapplication: create ports-other pin-1", "TestCampaignTraffic",
	}},
	{number: "P2", defect: "a draining pod breaks HTTP/2", tests: []string{"TestSite_Text", "TestCampaignTraffic"}},
	{number: "P3", defect: "a pod drains for ever after a liveness failure", tests: []string{"TestMarkDraining_RemovesTheMark", "TestCampaignTraffic"}},
	{number: "P4", defect: "a configuration is judged before its third test", tests: []string{"TestDiagnose_BlamesTheRevisionOnlyWithEvidence"}},
	{number: "P5", defect: "a ready pod that was restarted is a crash", tests: []string{"TestDiagnose_BlamesTheRevisionOnlyWithEvidence", "webserver: create scale-3 nodes-full-1! image-late"}},
	{number: "P6", defect: "a version that runs for a moment is healthy", tests: []string{"TestReport_RecordsARevisionAsHealthyAfterAWhile", "TestChain_AVersionThatRanForAMoment"}},
	{number: "P7", defect: "quotas, webhooks and service accounts are blamed on the revision", tests: []string{"TestOfPods", "TestDecide_DoesNotRollBackUnschedulablePods", "webserver: create webhook-down image-2", "demoapplication: create scale-3 quota-limits! image-2 quota-off"}},
	{number: "P8", defect: "restored objects are stuck", tests: []string{"TestReconciler_AdoptsARestoredBackup"}},
	{number: "P9", defect: "autoscaled objects have no PodDisruptionBudget", tests: []string{"TestPodDisruptionBudget_Autoscaled", "demoapplication: autoscale create"}},
	{number: "P10", defect: "WebServers do not listen on IPv6", tests: []string{"TestSite_ListensOnIPv6", "TestListensOnIPv6"}},
	{number: "P11", defect: "evicted pods are a crash", tests: []string{"TestDiagnose_BlamesTheRevisionOnlyWithEvidence", "webserver: create scale-3 nodes-full-1! image-2 pod-evicted"}},
	{number: "P12", defect: "an autoscaler that cannot work is silent", tests: []string{"TestReport_AutoscalerThatCannotScale"}},
	{number: "P13", defect: "clients that change different fields in turn are repaired without a limit", tests: []string{"TestApplier_CountsRepairsOfAllFieldsOfAChild"}},
	{number: "P14", defect: "a copy of a snapshot is deleted", tests: []string{"TestSnapshots_KeepReferencedOnes"}},
	{number: "P15", defect: "the order of variables is not repaired", tests: []string{"TestCompare"}},
	{number: "P16", defect: "a healthy revision fails because its surroundings fail", tests: []string{"TestPolicies_TheFirstThatAppliesDecides"}},
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
	{number: "R07b", defect: "a healthy revision fails because a file that it includes no longer exists", tests: []string{"TestPolicies_TheFirstThatAppliesDecides"}},
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

	{number: "O1", defect: "rendered manifests run the hook that stops the operator", tests: []string{"TestRelease_HookDoesNothingInRenderedManifests", "TestCampaignOperations"}},
	{number: "O2", defect: "a missing CRD ends the process", tests: []string{"TestServed_TellsMissingKindsApart", "TestTerms", "TestCampaignOperations"}},
	{number: "O3, S6", defect: "ConfigMaps of strangers fill the caches", tests: []string{"TestCache_DropsTheDataOfUnownedObjects", "TestAdmissionPolicies", "TestCampaignHostile"}},
	{number: "O4", defect: "two writers of a CA bundle fight without a pause", tests: []string{"TestRotator_LimitsWritesInAFight", "TestRotator_NamesTheOtherWriter", "TestCampaignHostile"}},
	{number: "O5, O13", defect: "changing the issuer of the certificate stops admission, and leaves a key", tests: []string{"TestInstall", "TestRotator_ServesWhileTheModeChanges", "TestCampaignOperations"}},
	{number: "O6", defect: "the alert about webhooks that fail never fires", tests: []string{"TestWebhookFailing_SeesPanics", "TestAlerts_AreTruthful"}},
	{number: "O7, S5", defect: "texts of tenants change the terminal of an administrator", tests: []string{"TestEscape"}},
	{number: "O8", defect: "production values alert about what they do not scrape", tests: []string{"TestProduction_ScrapesWhatItAlertsAbout"}},
	{number: "O9", defect: "release reports a Deployment as stopped that does not exist", tests: []string{"TestRelease_FailsWithoutTheNamedManager"}},
	{number: "O10", defect: "preflight succeeds when it saw nothing", tests: []string{"TestRun_KindThatIsNotServed", "TestRun_ReportsMisspelledNamespaces"}},
	{number: "O11", defect: "preflight and render ignore the installed configuration", tests: []string{"TestInstalledConfiguration", "TestRender_UsesThePlatformConfiguration"}},
	{number: "O12", defect: "alerts never fire, or always", tests: []string{"TestAlerts_AreTruthful"}},
	{number: "O14", defect: "losing the Lease ends admission", tests: []string{"TestTerms", "TestCampaignOperations"}},
	{number: "O15", defect: "a full range of addresses costs requests for ever, and is not named", tests: []string{"TestClassify", "TestReconcile_ProbesSharedCausesTogether"}},
	{number: "O16", defect: "commands refuse ordinary files, hang, or hide what they lack", tests: []string{
		"TestRender_RefusesWhatAdmissionRefuses",
		"TestRender_SkipsWhatHasNoChildren", "TestRender_RejectsInvalidInput", "TestRead_AcceptsWhatKubectlAppliesAccepts", "TestRun_ReportsUnreadableResources",
		"TestReach_NamesTheRemedyIfTheClusterDoesNotAnswer", "TestOutage_IsReportedWhileTheAPIServerDoesNotAnswer", "TestStatus_NamesTheCauseOnTheFirstScreen", "TestStatus_ShowsWhatMayBeRead",
		"TestObject_ReadinessCountsThePodsThatAreWanted", "TestPrinter_FoldsLongTexts",
	}},
	{number: "O17", defect: "the chart accepts values with which admission is down", tests: []string{
		"TestPods_LabelsOfTheChartWin",
		"TestValues_RefusedByTheOperatorAreRefusedByTheChart", "TestValues_InvalidOnesAreRejected", "TestDeployment_LimitsItsMemory", "TestHook_HasThePodMetadataOfTheValues", "TestCampaignOperations",
	}},

	{number: "F1", defect: "production values close the node ports of existing objects", tests: []string{"TestDesired_KeepsTheDefaultServiceType", "TestLost_CountsAddresses"}},
	{number: "F2", defect: "they lose them for ever", tests: []string{"TestReport_RecordsTheDefaultServiceType", "TestDesired_KeepsTheDefaultServiceType"}},
	{number: "F3", defect: "an upgrade makes Ready False", tests: []string{"TestReconcile_UpgradeChangesNoConditions"}},
	{number: "F4", defect: "no downgrade works after CRDs were applied by hand", why: "Helm and kubectl own the same fields; docs/upgrading.md names the flag"},
	{number: "F5", defect: "preflight accepts an empty configuration", tests: []string{"TestExecute_ErrorsContainTheRemedy"}},
	{number: "F6", defect: "production values need a flag, without which the upgrade stops half way", tests: []string{"TestInstall", "TestCampaignOperations"}},
	{number: "F7", defect: "ReplicaSets keep annotations, and older charts refuse newer values", why: "the Deployment controller copies annotations, and never removes them, which harms nothing; docs/upgrading.md says which values an older chart takes"},

	{number: "S1, S2", defect: "unfinished headers and bodies stop admission", tests: []string{"TestServers_AreBounded", "TestListen_SharesItsConnections", "TestWebhookServer_EndsUnfinishedRequests", "TestWebhookServer_LeavesHalfToOtherAddresses", "TestCampaignHostile"}},
	{number: "S3", defect: "forged revisions are used", tests: []string{"TestAdmissionPolicies", "TestDesired_UsesNoStoredTemplateThatNoSpecLeadsTo"}},
	{number: "S4", defect: "a stolen token gets tokens, and writes what selects other pods", tests: []string{"TestAdmissionPolicies", "TestAdmissionPolicies_CoverEveryPermission"}},
	{number: "S7", defect: "objects of one namespace hide those of another one from the alerts", tests: []string{"TestObjects_NameAtMostMaxAbnormal", "TestCampaignHostile"}},
	{number: "S8", defect: "pods that never become ready block a drain", why: "granted, as for any Deployment; TestTenant_ReachesNothingElse tries it, and docs/threat-model.md says how to drain nevertheless"},
	{number: "S9", defect: "a load balancer opens a chosen port of the nodes", tests: []string{"TestCorpus"}},
	{number: "S10", defect: "requests of strangers flood the log", tests: []string{"TestWebhookServer_EndsUnfinishedRequests"}},
	{number: "S11", defect: "webhooks tell any pod which hosts and Gateways a namespace may use", why: "accepted in docs/threat-model.md, until networkPolicy.webhookFrom is set: managed clusters do not let the API server present a client certificate"},
	{number: "S12", defect: "a dictionary takes seconds of a processor", tests: []string{"TestCompressor_MakesTheDictionaryOfALargeObjectAtOnce"}},
	{number: "S13", defect: "keys of known programs are allowed", tests: []string{"TestPods_AllowsKeys"}},
	{number: "S14", defect: "a ConfigMap makes objects of other namespaces reconcile", tests: []string{"TestControllerOf_MapsAnyVersionOfTheKind"}},
	{number: "S15", defect: "nothing signs images, or searches for vulnerabilities with each change", why: "accepted in docs/threat-model.md: signed checksums cover the digests, and a new entry in a database says nothing about a change"},
}

// testSources returns all tests, and all chains of the model.
func testSources(t *testing.T) string {
	t.Helper()
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
	return sources.String()
}

// TestFindings_HaveTestsThatExist checks that each finding has a test, or a reason.
func TestFindings_HaveTestsThatExist(t *testing.T) {
	t.Parallel()
	sources := testSources(t)
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
			if !strings.Contains(sources, want) {
				t.Errorf("%s: there is no %s", f.number, test)
			}
		}
	}
}
