/// Everything a program that embeds training needs.
#pragma once

#include "renaissance/backend/backend.h"
#include "renaissance/data/image.h"
#include "renaissance/graph/compiler.h"
#include "renaissance/models.h"
#include "renaissance/train/checkpoint.h"
#include "renaissance/train/export.h"
#include "renaissance/train/fold_bn.h"
#include "renaissance/train/metrics.h"
#include "renaissance/train/plots.h"
#include "renaissance/train/predictor.h"
#include "renaissance/train/recipe.h"
#include "renaissance/train/tensorboard.h"
#include "renaissance/train/trainer.h"
