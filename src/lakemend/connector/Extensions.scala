package lakemend

import lakemend.catalog.{LakeCatalog, LakeTable, PathTable, PathTables}
import lakemend.changes.ChangesInPlan
import lakemend.rows.{OneWrite, OwnReads}
import lakemend.sql.LakeParser
import org.apache.spark.sql.{SparkSession, SparkSessionExtensions, SparkSessionExtensionsProvider}
import org.apache.spark.sql.catalyst.analysis.{RelationTimeTravel, UnresolvedRelation}
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.connector.catalog.Identifier
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.lakemend._

/** Found by every new session through META-INF/services. */
class Extensions extends SparkSessionExtensionsProvider {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    extensions.injectParser(new LakeParser(_, _))
    extensions.injectHintResolutionRule(_ => PathsInTime)
    extensions.injectHintResolutionRule(_ => HoldRowChanges)
    extensions.injectHintResolutionRule(_ => InsertOverwrite)
    extensions.injectHintResolutionRule(NamedFormat(_))
    extensions.injectResolutionRule(PathsInCatalog(_))
    extensions.injectResolutionRule(_ => OlderVersions)
    extensions.injectResolutionRule(GeneratedColumns(_))
    extensions.injectResolutionRule(_ => FoundPlaces)
    extensions.injectResolutionRule(_ => AllowedChecks)
    extensions.injectResolutionRule(ChangesInPlan(_))
    extensions.injectResolutionRule(_ => SaveAsTable)
    extensions.injectResolutionRule(_ => NewTableOptions)
    extensions.injectPostHocResolutionRule(_ => AlterSameTable)
    extensions.injectPostHocResolutionRule(_ => ShowCreate)
    extensions.injectResolutionRule(UnsteadySource(_))
    extensions.injectResolutionRule(_ => EmptyIsNull)
    extensions.injectResolutionRule(Fates(_))
    extensions.injectResolutionRule(new WholeTarget(_))
    extensions.injectOptimizerRule { session =>
      // Scans exist only after the last place that extensions offer for rules of the optimizer.
      val late = Seq(SameTasks, PartitionsFirst, JoinPruning(session), StatementReads, GivenNumbers)
      session.experimental.extraOptimizations ++= late.diff(session.experimental.extraOptimizations)
      MergePlan(session)
    }
    extensions.injectOptimizerRule(SteadyCondition(_))
    extensions.injectOptimizerRule(BeforeImage(_))
    extensions.injectCheckRule(OwnReads(_))
    extensions.injectCheckRule(_ => OneWrite)
    extensions.injectPostHocResolutionRule(AllowedExpressions(_))
    extensions.injectPostHocResolutionRule(ReplaceRows(_))
    extensions.injectPostHocResolutionRule(_ => ChecksLast)
    extensions.injectPostHocResolutionRule(_ => WholeDelete)
    extensions.injectPostHocResolutionRule(_ => PaddedTarget)
    extensions.injectPostHocResolutionRule(_ => ReadsBeforeEvolution)
    extensions.injectQueryStagePrepRule(_ => PackUnused)
    extensions.injectQueryStagePrepRule(_ => WholeTarget)
    extensions.injectColumnar(_ => GroupedTasks)
  }
}

/**
 * ``delta.`path` TIMESTAMP AS OF now()`` with the path's own catalog before it: Spark knows the time only after it has taken such a
 * name of two parts for a file.
 */
object PathsInTime extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case travel @ RelationTimeTravel(u: UnresolvedRelation, Some(_), _) if isPath(u.multipartIdentifier) =>
      travel.copy(relation = u.copy(multipartIdentifier = Seq(PathTables.Catalog, "delta", u.multipartIdentifier.last)))
  }.resolveExpressions { case subquery: SubqueryExpression => subquery.withNewPlan(apply(subquery.plan)) }

  private def isPath(name: Seq[String]): Boolean =
    name.length == 2 && LakeCatalog.isPath(Identifier.of(Array(name.head), name.last))
}

/**
 * A table read by path becomes the catalog's table of that path. A writing statement then sees it through its own
 * catalog: pinned to one version, and known to have been read.
 */
case class PathsInCatalog(spark: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case r: DataSourceV2Relation if r.catalog.isEmpty => r.table match {
      case path: PathTable if !path.isTimeTravel =>
        val catalog = SparkBridge.catalog(spark, PathTables.Catalog)
        r.copy(table = path.opened, catalog = Some(catalog), identifier = Some(Identifier.of(Array.empty, path.path)))
      case _ => r
    }
  }
}

/**
 * A frame of an older version stays at it. Spark looks every relation of a writing statement up again by its name, in the
 * statement's own catalog and at the newest version, whatever version the frame was made for: so it has no name.
 */
object OlderVersions extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case r: DataSourceV2Relation if r.timeTravelSpec.isDefined && r.identifier.isDefined && r.table.isInstanceOf[LakeTable] =>
      r.copy(catalog = None, identifier = None)
  }
}
